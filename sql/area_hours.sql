-- Means of each hour over the locations of an area, ordered by time.
--
-- Times in seconds and NaN for NULL, so that a row is all numbers. Locations are weighted by their parallel, so that
-- each cell counts by its area.
SELECT extract(epoch FROM time)::bigint, {columns}
FROM {weather}
JOIN unnest(%(latitudes)s::real[], %(weights)s::double precision[]) AS parallel (latitude, weight) USING (latitude)
WHERE {locations}
  AND time >= coalesce(%(start)s::timestamptz, '-infinity')
  AND time < coalesce(%(end)s::timestamptz, 'infinity')
GROUP BY time
ORDER BY time

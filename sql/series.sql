-- One location's hours, in the order of time. {columns} is filled in with the columns asked for.
--
-- Seconds instead of timestamps, and NaN instead of NULL, so that a row is numbers only and goes into an array as it
-- is. The bounds are constants by the time the planner sees them: it leaves out the months outside them.
SELECT extract(epoch FROM time)::bigint, {columns}
FROM weather
WHERE location_id = %(location_id)s
  AND time >= coalesce(%(start)s::timestamptz, '-infinity')
  AND time < coalesce(%(end)s::timestamptz, 'infinity')
ORDER BY time

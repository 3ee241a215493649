-- One location's hours, ordered by time. {columns} is replaced by the requested columns.
--
-- Seconds instead of timestamps, and NaN instead of NULL, so that a row is all numbers and fits into an array. The
-- bounds are constants when the planner sees them, so that it excludes the months outside them.
SELECT extract(epoch FROM time)::bigint, {columns}
FROM weather
WHERE location_id = %(location_id)s
  AND time >= coalesce(%(start)s::timestamptz, '-infinity')
  AND time < coalesce(%(end)s::timestamptz, 'infinity')
ORDER BY time

-- One location's hours, in any order: their times, and the values of each of {columns}, packed.
--
-- Packed: all values of a column as one value of bytes, each number in PostgreSQL's binary form. A row for each hour
-- takes a message of the server and a Python object for each number, which is most of the time of a long series. NULL is
-- NaN, because string_agg leaves NULL out. The bounds are constants when the planner sees them, so that it excludes the
-- months outside them.
SELECT string_agg(timestamptz_send(time), ''), {columns}
FROM weather
WHERE location_id = %(location_id)s
  AND time >= coalesce(%(start)s::timestamptz, '-infinity')
  AND time < coalesce(%(end)s::timestamptz, 'infinity')

-- One location's hours, in any order: their times, and the values of each of {columns}, packed.
--
-- Packed: all values of a column as one bytea, each number in PostgreSQL's binary form. A row for each hour would cost
-- a server message, and a Python object for each number: most of the time of a long series. NULL becomes NaN, because
-- string_agg omits NULL. The planner sees the bounds as constants, so that it excludes the months outside them.
SELECT string_agg(timestamptz_send(time), ''), {columns}
FROM {weather}
WHERE location_id = %(location_id)s
  AND time >= coalesce(%(start)s::timestamptz, '-infinity')
  AND time < coalesce(%(end)s::timestamptz, 'infinity')

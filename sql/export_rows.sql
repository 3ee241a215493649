-- Rows in a rectangle of the grid and a range of hours: location_id (4 bytes each), time (8) and the values of each of
-- {columns}, each packed as one bytea, in the same order. NULL becomes NaN.
--
-- Like box.sql, for several columns; longitudes as in snapshot.sql.
SELECT string_agg(int4send(location_id), ''), string_agg(timestamptz_send(time), ''), {columns}
FROM {weather}
WHERE time >= %(start)s
  AND time < %(end)s
  AND location_id BETWEEN %(first_id)s AND %(last_id)s
  AND ((location_id - 1) %% %(columns)s - %(west_index)s + %(columns)s) %% %(columns)s < %(width)s

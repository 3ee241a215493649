-- The values of one column, {column}, in a rectangle of the grid and a range of hours: three lists of the same order,
-- each packed as one value of bytes: location_id (4 bytes each), time (8), value (4). What is NULL is left out.
--
-- One row for each value would take a message of the server and a Python object each; a list for each location would be
-- a table of hashes, which is slower where the planner makes it of sorted rows. A condition on the column in WHERE would
-- be checked row by row in the columnstore, before anything else, and takes a third of the query there. Longitudes as in
-- snapshot.sql.
SELECT string_agg(int4send(location_id), '') FILTER (WHERE {column} IS NOT NULL),
       string_agg(timestamptz_send(time), '') FILTER (WHERE {column} IS NOT NULL),
       string_agg(float4send({column}), '')
FROM weather
WHERE time >= %(start)s
  AND time < %(end)s
  AND location_id BETWEEN %(first_id)s AND %(last_id)s
  AND ((location_id - 1) %% %(columns)s - %(west_index)s + %(columns)s) %% %(columns)s < %(width)s

-- The values of one column, {column}, in a rectangle of the grid and a range of hours: three lists of the same order,
-- each packed as one bytea: location_id (4 bytes each), time (8), value (4). NULLs are omitted.
--
-- A row for each value would cost one server message and one Python object each. A list for each location would need a
-- hash table, which is slower where the planner sorts rows first. A condition on the column in WHERE would be checked
-- row by row in the columnstore, before all other conditions; it takes a third of the query's time there. Longitudes as
-- in snapshot.sql.
SELECT string_agg(int4send(location_id), '') FILTER (WHERE {column} IS NOT NULL),
       string_agg(timestamptz_send(time), '') FILTER (WHERE {column} IS NOT NULL),
       string_agg(float4send({column}), '')
FROM {weather}
WHERE time >= %(start)s
  AND time < %(end)s
  AND location_id BETWEEN %(first_id)s AND %(last_id)s
  AND ((location_id - 1) %% %(columns)s - %(west_index)s + %(columns)s) %% %(columns)s < %(width)s

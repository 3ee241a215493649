-- For each location in a rectangle: one statistic, {aggregate}, of one column, {column}, over a range of hours, and how
-- many of these hours have a value. Rectangle as in snapshot.sql.
SELECT location_id, {aggregate}({column}::double precision) AS value, count({column})::integer AS hours
FROM {weather}
WHERE time >= %(start)s
  AND time < %(end)s
  AND location_id BETWEEN %(first_id)s AND %(last_id)s
  AND ((location_id - 1) %% %(columns)s - %(west_index)s + %(columns)s) %% %(columns)s < %(width)s
GROUP BY location_id

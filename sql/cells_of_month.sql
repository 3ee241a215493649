-- For each location in a rectangle: one statistic of one month, {column} of {weather}_monthly, and its hour count.
-- Rectangle as in snapshot.sql.
SELECT location_id, {column}::double precision AS value, coalesce({hours}, 0)::integer AS hours
FROM {weather}_monthly
WHERE month = %(month)s
  AND location_id BETWEEN %(first_id)s AND %(last_id)s
  AND ((location_id - 1) %% %(columns)s - %(west_index)s + %(columns)s) %% %(columns)s < %(width)s

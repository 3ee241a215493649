-- For each location in a rectangle: one statistic of consecutive months of weather_monthly, and of how many hours
-- it is. The rectangle as in snapshot.sql.
SELECT location_id, ({value})::double precision AS value, coalesce(sum({hours}), 0)::integer AS hours
FROM weather_monthly
WHERE month BETWEEN %(first)s AND %(last)s
  AND location_id BETWEEN %(first_id)s AND %(last_id)s
  AND ((location_id - 1) %% %(columns)s - %(west_index)s + %(columns)s) %% %(columns)s < %(width)s
GROUP BY location_id

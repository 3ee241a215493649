-- One hour of one column, {column}, at every location in a rectangle.
--
-- The range of location_id is a band of latitudes, for the BRIN index. The last condition counts grid columns eastward
-- from the rectangle's western border, so that a rectangle across the antimeridian needs no second case.
SELECT location_id, coalesce({column}, 'NaN')
FROM {weather}
WHERE time = %(time)s
  AND location_id BETWEEN %(first_id)s AND %(last_id)s
  AND ((location_id - 1) %% %(columns)s - %(west_index)s + %(columns)s) %% %(columns)s < %(width)s

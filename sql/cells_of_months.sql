-- One statistic of months of some locations, {column} of weather_monthly, and of how many hours it is: four lists of the same
-- order, each packed as one value of bytes. A month is its number: 12 times its year and, from 0, its place in it.
SELECT string_agg(int4send((extract(year FROM month) * 12 + extract(month FROM month) - 1)::integer), ''),
       string_agg(int4send(location_id), ''), string_agg(float8send({column}), ''), string_agg(int4send({hours}::integer), '')
FROM weather_monthly
WHERE month BETWEEN %(first)s AND %(last)s AND location_id = ANY(%(ids)s) AND {column} IS NOT NULL AND {hours} > 0

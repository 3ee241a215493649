-- One statistic, {column} of {weather}_monthly, for several months and locations, with its hour count: four lists of the
-- same order, each packed as one bytea. A month is given as 12 * year + (month - 1).
SELECT string_agg(int4send((extract(year FROM month) * 12 + extract(month FROM month) - 1)::integer), ''),
       string_agg(int4send(location_id), ''), string_agg(float8send({column}), ''), string_agg(int4send({hours}::integer), '')
FROM {weather}_monthly
WHERE month BETWEEN %(first)s AND %(last)s AND location_id = ANY(%(ids)s) AND {column} IS NOT NULL AND {hours} > 0

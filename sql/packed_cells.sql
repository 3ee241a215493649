-- The rows of a query of cells (columns location_id, value and hours) as three lists of the same order, each packed as
-- one bytea: location_id (4 bytes each), value (8), hours (4). A row for each of a million cells would cost a server
-- message and a Python object each.
SELECT string_agg(int4send(location_id), ''), string_agg(float8send(coalesce(value, 'NaN')), ''), string_agg(int4send(hours), '')
FROM ({cells}) AS cells

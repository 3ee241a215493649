-- The locations that the table {weather} holds, and the nearest of them. The statements are idempotent.
-- Where PostGIS is installed, the view gets two more columns, whose comments follow the others.

CREATE TABLE IF NOT EXISTS {schema}.land (
    latitude_index  integer PRIMARY KEY CHECK (latitude_index BETWEEN 0 AND {last_row}),
    percent         bytea NOT NULL CHECK (length(percent) = {grid_columns})
);

COMMENT ON TABLE {schema}.land IS
    'How much of each cell of the grid is land, computed from the shorelines of GSHHG: lakes and wide rivers are water';
COMMENT ON COLUMN {schema}.land.latitude_index IS 'Row of the grid from south to north: (latitude + 90) * {per_degree}';
COMMENT ON COLUMN {schema}.land.percent IS
    'Percentages of the cells from west to east, a byte each: get_byte(percent, ((longitude + {west}) * {per_degree})::int)';

-- The parts of most months are equal: each set of locations is read once.
CREATE OR REPLACE VIEW {schema}.location AS
SELECT id AS location_id,
       (land.latitude_index * {step} - 90)::real AS latitude,
       ((id - 1) % {grid_columns} * {step} - {west})::real AS longitude,
       (get_byte(land.percent, (id - 1) % {grid_columns}) * 0.01)::real AS land_share{geography}
FROM (
    SELECT range_agg(location_ids) AS ids
    FROM (SELECT DISTINCT location_ids FROM {schema}.ledger WHERE dropped_at IS NULL) AS part
) AS held
CROSS JOIN unnest(held.ids) AS run
CROSS JOIN generate_series(lower(run), upper(run) - 1) AS id
JOIN {schema}.land ON land.latitude_index = (id - 1) / {grid_columns};

COMMENT ON VIEW {schema}.location IS 'One row per location that the table {weather} has rows of, in any month';
COMMENT ON COLUMN {schema}.location.location_id IS 'Number of the grid point, as in {weather}';
COMMENT ON COLUMN {schema}.location.latitude IS 'Degrees north, as in {weather}';
COMMENT ON COLUMN {schema}.location.longitude IS 'Degrees east, as in {weather}';
COMMENT ON COLUMN {schema}.location.land_share IS
    'How much of the cell of {step} degrees around the point is land, 0 to 1; lakes and wide rivers are water';
{describe_geography}

-- In a row of the grid the nearest location has the nearest longitude: so a run of location_id has at most three
-- candidates, in its first row, its last row, and the rows between them, which are complete.
CREATE OR REPLACE FUNCTION {schema}.nearest(latitude double precision, longitude double precision)
RETURNS TABLE (location_id integer, nearest_latitude real, nearest_longitude real, distance_km double precision)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1 AS $$
    WITH asked AS (
        SELECT id, (id - 1) / {grid_columns} AS nearest_row, steps - {grid_columns} * floor(steps / {grid_columns}) AS steps
        FROM (
            SELECT {schema}.at(nearest.latitude, nearest.longitude) AS id, (nearest.longitude + {west}) * {per_degree} AS steps
        ) AS own
    ), run AS (
        SELECT lower(run) - 1 AS first, upper(run) - 2 AS last
        FROM asked
        CROSS JOIN LATERAL (
            -- Where the nearest point of the grid is held, the others need not be compared.
            SELECT int4multirange(int4range(asked.id, asked.id + 1)) AS ids
            WHERE EXISTS (SELECT FROM {schema}.ledger WHERE dropped_at IS NULL AND location_ids @> asked.id)
            UNION ALL
            SELECT range_agg(location_ids)
            FROM (SELECT DISTINCT location_ids FROM {schema}.ledger WHERE dropped_at IS NULL) AS part
            LIMIT 1
        ) AS held
        CROSS JOIN unnest(held.ids) AS run
        WHERE asked.id IS NOT NULL
    ), segment AS (
        SELECT first / {grid_columns} AS row, first % {grid_columns} AS west,
               CASE WHEN first / {grid_columns} = last / {grid_columns} THEN last % {grid_columns} ELSE {last_column} END AS east
        FROM run
        UNION ALL
        SELECT last / {grid_columns}, 0, last % {grid_columns} FROM run WHERE first / {grid_columns} < last / {grid_columns}
        UNION ALL
        SELECT least(greatest(asked.nearest_row, first / {grid_columns} + 1), last / {grid_columns} - 1), 0, {last_column}
        FROM run CROSS JOIN asked
        WHERE first / {grid_columns} + 1 < last / {grid_columns}
    ), candidate AS (
        SELECT row * {step}::float8 - 90 AS y, "column" * {step}::float8 - {west} AS x, row * {grid_columns} + "column" + 1 AS id
        FROM segment
        CROSS JOIN asked
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN round(steps)::integer % {grid_columns} BETWEEN west AND east THEN round(steps)::integer % {grid_columns}
                WHEN least(abs(steps - west), {grid_columns} - abs(steps - west))
                    <= least(abs(steps - east), {grid_columns} - abs(steps - east))
                THEN west
                ELSE east
            END AS "column"
        ) AS of_row
    )
    -- The server refuses the square of a number such as 1e-200.
    SELECT id, y::real, x::real,
           2 * 6371 * asin(least(1, sqrt(
               sind(greatest(abs(y - nearest.latitude), 1e-9) / 2) ^ 2
               + cosd(y) * cosd(nearest.latitude) * sind(greatest(abs(x - nearest.longitude), 1e-9) / 2) ^ 2
           ))) AS kilometres
    FROM candidate
    ORDER BY kilometres, id
    LIMIT 1
$$;

COMMENT ON FUNCTION {schema}.nearest IS
    'The nearest location that {weather} has rows of, in any month, and its distance in km: SELECT * FROM {schema}.nearest(-6.2, 106.8)';

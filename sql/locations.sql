-- The locations that the table weather holds, and the nearest of them. The statements are idempotent.
-- Where PostGIS is installed, the view gets two more columns, whose comments follow the others.

CREATE TABLE IF NOT EXISTS era5.land (
    latitude_index  integer PRIMARY KEY CHECK (latitude_index BETWEEN 0 AND 720),
    percent         bytea NOT NULL CHECK (length(percent) = 1440)
);

COMMENT ON TABLE era5.land IS
    'How much of each cell of the grid is land, computed from the shorelines of GSHHG: lakes and wide rivers are water';
COMMENT ON COLUMN era5.land.latitude_index IS 'Row of the grid from south to north: (latitude + 90) * 4';
COMMENT ON COLUMN era5.land.percent IS
    'Percentages of the cells from west to east, a byte each: get_byte(percent, ((longitude + 179.75) * 4)::int)';

-- The parts of most months are equal: each set of locations is read once.
CREATE OR REPLACE VIEW era5.location AS
SELECT id AS location_id,
       (land.latitude_index * 0.25 - 90)::real AS latitude,
       ((id - 1) % 1440 * 0.25 - 179.75)::real AS longitude,
       (get_byte(land.percent, (id - 1) % 1440) * 0.01)::real AS land_share{geography}
FROM (
    SELECT range_agg(location_ids) AS ids
    FROM (SELECT DISTINCT location_ids FROM era5.ledger WHERE dropped_at IS NULL) AS part
) AS held
CROSS JOIN unnest(held.ids) AS run
CROSS JOIN generate_series(lower(run), upper(run) - 1) AS id
JOIN era5.land ON land.latitude_index = (id - 1) / 1440;

COMMENT ON VIEW era5.location IS 'One row per location that the table weather has rows of, in any month';
COMMENT ON COLUMN era5.location.location_id IS 'Number of the grid point, as in weather';
COMMENT ON COLUMN era5.location.latitude IS 'Degrees north, as in weather';
COMMENT ON COLUMN era5.location.longitude IS 'Degrees east, as in weather';
COMMENT ON COLUMN era5.location.land_share IS
    'How much of the cell of 0.25 degrees around the point is land, 0 to 1; lakes and wide rivers are water';
{describe_geography}

-- In a row of the grid the nearest location has the nearest longitude: so a run of location_id has at most three
-- candidates, in its first row, its last row, and the rows between them, which are complete.
CREATE OR REPLACE FUNCTION era5.nearest(latitude double precision, longitude double precision)
RETURNS TABLE (location_id integer, nearest_latitude real, nearest_longitude real, distance_km double precision)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1 AS $$
    WITH asked AS (
        SELECT id, (id - 1) / 1440 AS nearest_row, steps - 1440 * floor(steps / 1440) AS steps
        FROM (
            SELECT era5.at(nearest.latitude, nearest.longitude) AS id, (nearest.longitude + 179.75) * 4 AS steps
        ) AS own
    ), run AS (
        SELECT lower(run) - 1 AS first, upper(run) - 2 AS last
        FROM asked
        CROSS JOIN LATERAL (
            -- Where the nearest point of the grid is held, the others need not be compared.
            SELECT int4multirange(int4range(asked.id, asked.id + 1)) AS ids
            WHERE EXISTS (SELECT FROM era5.ledger WHERE dropped_at IS NULL AND location_ids @> asked.id)
            UNION ALL
            SELECT range_agg(location_ids)
            FROM (SELECT DISTINCT location_ids FROM era5.ledger WHERE dropped_at IS NULL) AS part
            LIMIT 1
        ) AS held
        CROSS JOIN unnest(held.ids) AS run
        WHERE asked.id IS NOT NULL
    ), segment AS (
        SELECT first / 1440 AS row, first % 1440 AS west,
               CASE WHEN first / 1440 = last / 1440 THEN last % 1440 ELSE 1439 END AS east
        FROM run
        UNION ALL
        SELECT last / 1440, 0, last % 1440 FROM run WHERE first / 1440 < last / 1440
        UNION ALL
        SELECT least(greatest(asked.nearest_row, first / 1440 + 1), last / 1440 - 1), 0, 1439
        FROM run CROSS JOIN asked
        WHERE first / 1440 + 1 < last / 1440
    ), candidate AS (
        SELECT row * 0.25::float8 - 90 AS y, "column" * 0.25::float8 - 179.75 AS x, row * 1440 + "column" + 1 AS id
        FROM segment
        CROSS JOIN asked
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN round(steps)::integer % 1440 BETWEEN west AND east THEN round(steps)::integer % 1440
                WHEN least(abs(steps - west), 1440 - abs(steps - west))
                    <= least(abs(steps - east), 1440 - abs(steps - east))
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

COMMENT ON FUNCTION era5.nearest IS
    'The nearest location that weather has rows of, in any month, and its distance in km: SELECT * FROM era5.nearest(-6.2, 106.8)';

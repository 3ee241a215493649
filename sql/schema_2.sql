-- Version 2: values that the Climate Data Store interpolated between its grid points, for areas that begin between them.

ALTER TABLE {schema}.ledger ADD COLUMN interpolated jsonb;

COMMENT ON COLUMN {schema}.ledger.interpolated IS
    'How far the values'' points lie from their locations, in degrees {"north", "east"}; NULL: values on the grid';

CREATE OR REPLACE VIEW {schema}.month AS
SELECT month,
       CASE WHEN bool_and(state = 'loaded') THEN 'loaded' ELSE 'incomplete' END AS state,
       count(*) AS parts,
       sum(rows)::bigint AS rows,
       sum(locations)::integer AS locations,
       range_agg(location_ids) AS location_ids,
       min(hours) AS hours_min,
       max(hours_expected) AS hours_expected,
       (SELECT string_agg(DISTINCT name, ', ' ORDER BY name)
        FROM {schema}.ledger AS part
        CROSS JOIN LATERAL (SELECT part.source AS name
                            UNION SELECT added ->> 'source' FROM jsonb_array_elements(part.additions) AS added) AS own
        WHERE part.month = ledger.month AND part.dropped_at IS NULL) AS sources,
       string_agg(DISTINCT version, ', ' ORDER BY version) AS versions,
       max(loaded_at) AS loaded_at,
       count(interpolated) AS interpolated
FROM {schema}.ledger
WHERE dropped_at IS NULL
GROUP BY month;

COMMENT ON COLUMN {schema}.month.interpolated IS 'Number of parts with values that the store interpolated between grid points';

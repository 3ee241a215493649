-- Version 3: whose word it is that the values are hourly ones of {dataset}.

ALTER TABLE {schema}.ledger ADD COLUMN origin text CHECK (origin IN ('stated', 'not stated', 'trusted'));

COMMENT ON COLUMN {schema}.ledger.origin IS
    'Who says that the values are of {dataset}: stated by source or files; not stated; trusted: the user, against the files; NULL: not recorded';

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
       count(interpolated) AS interpolated,
       string_agg(DISTINCT coalesce(origin, 'not recorded'), ', ' ORDER BY coalesce(origin, 'not recorded')) AS origins
FROM {schema}.ledger
WHERE dropped_at IS NULL
GROUP BY month;

COMMENT ON COLUMN {schema}.month.origins IS
    'Origins of its parts: stated, not stated, trusted, or not recorded (loaded before this column was there)';

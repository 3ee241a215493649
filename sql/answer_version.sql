-- What the ledger says of the parts that an answer is read from: how many, when the last changed, and a digest that is
-- another if any of them is loaded again, revised, cut or dropped; and the sources, versions and years of what is
-- still there. Without limits: of all parts. Columns that were added to the rows of a part later have a source of their
-- own. The ledger of an earlier version lacks the additions: a name that the inner query does not find is that of the
-- outer one.
WITH parts AS (
    SELECT part.*
    FROM (SELECT '[]'::jsonb AS additions) AS lacking
    CROSS JOIN LATERAL (
        SELECT month, part, state, locations, fingerprint, source, version, loaded_at, revised_at, dropped_at, additions
        FROM era5.ledger
        WHERE (%(location_ids)s::int4multirange IS NULL OR location_ids && %(location_ids)s::int4multirange)
          AND (%(first)s::date IS NULL OR month >= %(first)s::date)
          AND (%(last)s::date IS NULL OR month <= %(last)s::date)
    ) AS part
)
SELECT count(*),
       max(greatest(loaded_at, revised_at, dropped_at)),
       md5(string_agg(concat_ws(' ', month, part, state, locations, fingerprint, extract(epoch FROM loaded_at)),
                      ',' ORDER BY month, part)),
       now(),
       (SELECT jsonb_agg(DISTINCT jsonb_build_array(name, version, extract(year FROM month)::int))
        FROM parts AS there
        CROSS JOIN LATERAL (SELECT there.source AS name
                            UNION SELECT added ->> 'source' FROM jsonb_array_elements(there.additions) AS added) AS own
        WHERE dropped_at IS NULL)
FROM parts

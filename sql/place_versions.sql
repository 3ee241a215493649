-- For each part with any of these locations, in a range of months (NULL: all of them): the sources of these columns
-- (NULL: of all; with duplicates), each with the snapshot of its store; version, preliminary hours, shift off the grid,
-- whose word its origin is, hour counts by version, unless all its columns have the same, and the source and snapshot
-- that confirmed the values of these columns. Columns that were added to a part's rows later have their own source.
SELECT month,
       CASE WHEN %(columns)s::text[] IS NULL OR EXISTS (
                SELECT FROM unnest(%(columns)s::text[]) AS name
                WHERE columns @> jsonb_build_array(jsonb_build_object('column', name))
                  AND NOT additions @> jsonb_build_array(jsonb_build_object('columns', jsonb_build_array(name))))
            THEN jsonb_build_array(jsonb_build_array(source, snapshot)) ELSE '[]' END
       || CASE WHEN additions = '[]' THEN '[]' ELSE coalesce((
                SELECT jsonb_agg(jsonb_build_array(added -> 'source', added -> 'snapshot'))
                FROM jsonb_array_elements(additions) AS added
                WHERE %(columns)s::text[] IS NULL OR added -> 'columns' ?| %(columns)s::text[]), '[]') END AS sources,
       version,
       CASE WHEN version IN ('preliminary', 'mixed') THEN preliminary_hours ELSE '{}'::jsonb END AS preliminary_hours,
       interpolated,
       origin,
       CASE WHEN version IN ('mixed', 'unknown') THEN expver END AS expver,
       CASE WHEN confirmed IS NOT NULL
                 AND (%(columns)s::text[] IS NULL OR confirmed -> 'quanta' ?| %(columns)s::text[])
            THEN jsonb_build_array(confirmed -> 'source', confirmed -> 'snapshot') END AS confirmed
FROM {schema}.ledger
WHERE dropped_at IS NULL
  AND (%(location_ids)s::int4multirange IS NULL OR location_ids && %(location_ids)s::int4multirange)
  AND month >= coalesce(%(first)s::date, '-infinity')
  AND month <= coalesce(%(last)s::date, 'infinity')
ORDER BY month, part

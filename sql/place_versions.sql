-- For each part with any of these locations, in a range of months: the sources of these columns (with duplicates),
-- version, preliminary hours, shift off the grid and whose word its origin is. Columns that were added to a part's rows later have their own source.
SELECT month,
       CASE WHEN EXISTS (
                SELECT FROM unnest(%(columns)s::text[]) AS name
                WHERE columns @> jsonb_build_array(jsonb_build_object('column', name))
                  AND NOT additions @> jsonb_build_array(jsonb_build_object('columns', jsonb_build_array(name))))
            THEN ARRAY[source] ELSE '{}' END
       || CASE WHEN additions = '[]' THEN '{}' ELSE ARRAY(
                SELECT added ->> 'source'
                FROM jsonb_array_elements(additions) AS added
                WHERE added -> 'columns' ?| %(columns)s::text[]) END AS sources,
       version,
       CASE WHEN version IN ('preliminary', 'mixed') THEN preliminary_hours ELSE '{}'::jsonb END AS preliminary_hours,
       interpolated,
       origin
FROM era5.ledger
WHERE dropped_at IS NULL
  AND location_ids && %(location_ids)s::int4multirange
  AND month BETWEEN %(first)s AND %(last)s
ORDER BY month, part

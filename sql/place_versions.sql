-- Sources of these columns, some more than once, version and preliminary hours of each part that has any of these
-- locations, in months of a range. Columns that were added to the rows of a part later have a source of their own.
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
       CASE WHEN version IN ('preliminary', 'mixed') THEN preliminary_hours ELSE '{}'::jsonb END AS preliminary_hours
FROM era5.ledger
WHERE dropped_at IS NULL
  AND location_ids && %(location_ids)s::int4multirange
  AND month BETWEEN %(first)s AND %(last)s
ORDER BY month, part

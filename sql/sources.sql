-- The sources of what the table holds of these columns (NULL: of all) in parts of months of a range that have any of
-- these locations (NULL: in all), as lists of those of a part, and the first and last month of each list. Columns that
-- were added to the rows of a part later have a source of their own.
SELECT sources, min(month), max(month)
FROM (
    SELECT month,
           CASE WHEN %(columns)s::text[] IS NULL OR EXISTS (
                    SELECT FROM unnest(%(columns)s::text[]) AS name
                    WHERE columns @> jsonb_build_array(jsonb_build_object('column', name))
                      AND NOT additions @> jsonb_build_array(jsonb_build_object('columns', jsonb_build_array(name))))
                THEN ARRAY[source] ELSE '{}' END
           || CASE WHEN additions = '[]' THEN '{}' ELSE ARRAY(
                    SELECT DISTINCT added ->> 'source'
                    FROM jsonb_array_elements(additions) AS added
                    WHERE %(columns)s::text[] IS NULL OR added -> 'columns' ?| %(columns)s::text[]) END AS sources
    FROM era5.ledger
    WHERE dropped_at IS NULL
      AND (%(location_ids)s::int4multirange IS NULL OR location_ids && %(location_ids)s::int4multirange)
      AND month >= coalesce(%(first)s::date, '-infinity')
      AND month <= coalesce(%(last)s::date, 'infinity')
) AS part
GROUP BY sources
ORDER BY sources

-- Sources of these columns (NULL: of all) in a range of months, in parts with any of these locations (NULL: in all
-- parts): each combination of sources that a part has, with its first and last month, its shift off the grid, and
-- whose word its origin is. Columns that were added to a part's rows later have their own source.
SELECT sources, min(month), max(month), interpolated, origin
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
                    WHERE %(columns)s::text[] IS NULL OR added -> 'columns' ?| %(columns)s::text[]) END AS sources,
           interpolated,
           origin
    FROM era5.ledger
    WHERE dropped_at IS NULL
      AND (%(location_ids)s::int4multirange IS NULL OR location_ids && %(location_ids)s::int4multirange)
      AND month >= coalesce(%(first)s::date, '-infinity')
      AND month <= coalesce(%(last)s::date, 'infinity')
) AS part
GROUP BY sources, interpolated, origin
ORDER BY sources, interpolated, origin

-- Ledger facts about the parts that an answer reads (without limits: all parts): their number, and a digest that
-- changes when any part is reloaded, revised, cut or dropped; for the remaining parts also their sources, versions and
-- years, with a separate list for columns that were added to the rows later, their shifts off the grid (null: on the
-- grid), and whose words their origins are (null: not recorded).
SELECT count(*),
       md5(string_agg(concat_ws(' ', month, part, state, locations, fingerprint, extract(epoch FROM loaded_at)),
                      ',' ORDER BY month, part)),
       jsonb_agg(DISTINCT jsonb_build_array(source, version, extract(year FROM month)::int))
           FILTER (WHERE dropped_at IS NULL),
       jsonb_agg(DISTINCT jsonb_build_array(jsonb_path_query_array(additions, '$[*].source'), version,
                                            extract(year FROM month)::int))
           FILTER (WHERE dropped_at IS NULL AND additions <> '[]'),
       jsonb_agg(DISTINCT interpolated) FILTER (WHERE dropped_at IS NULL),
       jsonb_agg(DISTINCT origin) FILTER (WHERE dropped_at IS NULL)
FROM era5.ledger
WHERE (%(location_ids)s::int4multirange IS NULL OR location_ids && %(location_ids)s::int4multirange)
  AND (%(first)s::date IS NULL OR month >= %(first)s::date)
  AND (%(last)s::date IS NULL OR month <= %(last)s::date)

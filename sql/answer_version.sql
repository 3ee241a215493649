-- What the ledger says of the parts that an answer is read from: how many, when the last changed, and a digest that is
-- another if any of them is loaded again, revised, cut or dropped; and of what is still there the sources, versions and
-- years, those of columns that were added to the rows later in a list of their own. Without limits: of all parts.
SELECT count(*),
       max(greatest(loaded_at, revised_at, dropped_at)),
       md5(string_agg(concat_ws(' ', month, part, state, locations, fingerprint, extract(epoch FROM loaded_at)),
                      ',' ORDER BY month, part)),
       now(),
       jsonb_agg(DISTINCT jsonb_build_array(source, version, extract(year FROM month)::int))
           FILTER (WHERE dropped_at IS NULL),
       jsonb_agg(DISTINCT jsonb_build_array(jsonb_path_query_array(additions, '$[*].source'), version,
                                            extract(year FROM month)::int))
           FILTER (WHERE dropped_at IS NULL AND additions <> '[]')
FROM era5.ledger
WHERE (%(location_ids)s::int4multirange IS NULL OR location_ids && %(location_ids)s::int4multirange)
  AND (%(first)s::date IS NULL OR month >= %(first)s::date)
  AND (%(last)s::date IS NULL OR month <= %(last)s::date)

-- Ledger facts about the parts that an answer reads (without limits: all parts): their number, and a digest that
-- changes when any part is reloaded, revised, confirmed, cut or dropped.
SELECT count(*),
       md5(string_agg(concat_ws(' ', month, part, state, locations, fingerprint, extract(epoch FROM loaded_at),
                                 confirmed ->> 'fingerprint'),
                      ',' ORDER BY month, part))
FROM {schema}.ledger
WHERE (%(location_ids)s::int4multirange IS NULL OR location_ids && %(location_ids)s::int4multirange)
  AND (%(first)s::date IS NULL OR month >= %(first)s::date)
  AND (%(last)s::date IS NULL OR month <= %(last)s::date)

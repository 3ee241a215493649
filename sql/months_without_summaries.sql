-- Which of these months have hours but no monthly summaries, in a part with any of the locations (NULL: in any part).
SELECT DISTINCT month
FROM {schema}.ledger
WHERE dropped_at IS NULL
  AND NOT has_summaries
  AND month = ANY(%(months)s::date[])
  AND (%(location_ids)s::int4multirange IS NULL OR location_ids && %(location_ids)s::int4multirange)
ORDER BY month

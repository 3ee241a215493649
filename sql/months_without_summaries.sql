-- Those of some months whose hours the table holds without monthly summaries, of parts with any of the locations or, if these
-- are NULL, of any part.
SELECT DISTINCT month
FROM era5.ledger
WHERE dropped_at IS NULL
  AND NOT has_summaries
  AND month = ANY(%(months)s::date[])
  AND (%(location_ids)s::int4multirange IS NULL OR location_ids && %(location_ids)s::int4multirange)
ORDER BY month

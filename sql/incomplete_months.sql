-- By the ledger: the months of a range in which a part with any of these locations lacks hours or values.
SELECT DISTINCT month
FROM {schema}.ledger
WHERE dropped_at IS NULL
  AND state = 'incomplete'
  AND month BETWEEN %(first)s AND %(last)s
  AND location_ids && %(location_ids)s::int4multirange
ORDER BY month

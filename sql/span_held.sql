-- By the ledger: the months that the table holds, each with the hour count of its fullest part, among the parts that
-- have any of the locations and values.
SELECT month, max(hours)
FROM {schema}.ledger
WHERE dropped_at IS NULL
  AND columns <> '[]'
  AND location_ids && %(location_ids)s::int4multirange
GROUP BY month
ORDER BY month

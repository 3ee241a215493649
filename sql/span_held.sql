-- The months that the table holds by the ledger, each with the hours that the fullest of its parts has: of all parts that
-- have any of the locations and values.
SELECT month, max(hours)
FROM era5.ledger
WHERE dropped_at IS NULL
  AND columns <> '[]'
  AND location_ids && %(location_ids)s::int4multirange
GROUP BY month
ORDER BY month

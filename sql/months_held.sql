-- The months that the table holds by the ledger, and the columns that have values there: of all parts that have any of
-- the locations or, if these are NULL, of all parts.
SELECT month, jsonb_agg(DISTINCT facts -> 'column')
FROM era5.ledger, jsonb_array_elements(columns) AS facts
WHERE dropped_at IS NULL
  AND (%(location_ids)s::int4multirange IS NULL OR location_ids && %(location_ids)s::int4multirange)
GROUP BY month
ORDER BY month

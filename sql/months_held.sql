-- By the ledger: the months that the table holds at any of the locations (NULL: anywhere), and their columns with
-- values.
SELECT month, jsonb_agg(DISTINCT facts -> 'column')
FROM {schema}.ledger, jsonb_array_elements(columns) AS facts
WHERE dropped_at IS NULL
  AND (%(location_ids)s::int4multirange IS NULL OR location_ids && %(location_ids)s::int4multirange)
GROUP BY month
ORDER BY month

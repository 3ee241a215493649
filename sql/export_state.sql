-- Detects changes of the table, in a range of months and at any of these locations: each load changes `loaded_at`, and
-- a load that takes locations out of another part changes that part's rows.
SELECT month, part, loaded_at, rows
FROM {schema}.ledger
WHERE dropped_at IS NULL
  AND month BETWEEN %(first)s AND %(last)s
  AND location_ids && %(location_ids)s::int4multirange

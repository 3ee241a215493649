-- What tells one state of the table from another, for months of a range and any of these locations: each load changes
-- `loaded_at`, and one that takes locations out of another part changes its rows.
SELECT month, part, loaded_at, rows
FROM era5.ledger
WHERE dropped_at IS NULL
  AND month BETWEEN %(first)s AND %(last)s
  AND location_ids && %(location_ids)s::int4multirange

-- The first and the last month that the table holds by the ledger: of all parts that have any of the locations and values.
SELECT min(month), max(month)
FROM era5.ledger
WHERE dropped_at IS NULL
  AND columns <> '[]'
  AND location_ids && %(location_ids)s::int4multirange

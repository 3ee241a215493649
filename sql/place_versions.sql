-- Source, version and preliminary hours of each part that has any of these locations, in months of a range.
SELECT month, source, version, CASE WHEN version IN ('preliminary', 'mixed') THEN preliminary_hours ELSE '{}'::jsonb END
FROM era5.ledger
WHERE dropped_at IS NULL
  AND location_ids && %(location_ids)s::int4multirange
  AND month BETWEEN %(first)s AND %(last)s
ORDER BY month, part

-- The sources of what the table holds of the months that overlap a range.
SELECT DISTINCT source
FROM era5.ledger
WHERE dropped_at IS NULL
  AND month >= coalesce(%(first)s::date, '-infinity')
  AND month <= coalesce(%(last)s::date, 'infinity')
ORDER BY source

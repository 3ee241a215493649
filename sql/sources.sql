-- The sources of the months that overlap a range.
SELECT DISTINCT source
FROM era5.ledger
WHERE month >= coalesce(%(first)s::date, '-infinity')
  AND month <= coalesce(%(last)s::date, 'infinity')
ORDER BY source

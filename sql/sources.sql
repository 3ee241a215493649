-- The sources of what the table holds of the months that overlap a range, and the first and last month of each.
SELECT source, min(month), max(month)
FROM era5.ledger
WHERE dropped_at IS NULL
  AND month >= coalesce(%(first)s::date, '-infinity')
  AND month <= coalesce(%(last)s::date, 'infinity')
GROUP BY source
ORDER BY source

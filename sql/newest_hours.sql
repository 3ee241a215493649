-- Each source's newest month, with the missing hours and the columns of its parts.
SELECT source, month, missing_hours, columns
FROM (SELECT *, rank() OVER (PARTITION BY source ORDER BY month DESC) AS from_newest
      FROM {schema}.ledger
      WHERE dropped_at IS NULL) AS part
WHERE from_newest = 1

-- The parts of months that were loaded last: rows, and the seconds of each stage. Of a part that was cut, the rows are
-- not those that took these seconds.
SELECT rows, (seconds->>'raw')::float8, (seconds->>'flat')::float8, (seconds->>'load')::float8
FROM era5.ledger
WHERE dropped_at IS NULL AND NOT is_cut AND (seconds->>'load') IS NOT NULL
ORDER BY loaded_at DESC
LIMIT %(loads)s

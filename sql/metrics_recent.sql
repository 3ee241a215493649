-- The most recently loaded parts: rows, and seconds of each stage. Cut parts are excluded: their seconds were for more
-- rows than they have now.
SELECT rows, (seconds->>'raw')::float8, (seconds->>'flat')::float8, (seconds->>'load')::float8
FROM {schema}.ledger
WHERE dropped_at IS NULL AND NOT is_cut AND (seconds->>'load') IS NOT NULL
ORDER BY loaded_at DESC
LIMIT %(loads)s

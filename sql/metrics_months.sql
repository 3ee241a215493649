-- Every month that the table holds or whose load was attempted, in order: its state, as era5 status says it, the rows,
-- and whether some of its hours are preliminary.
WITH parts AS (
    SELECT month, bool_and(state = 'loaded') AS is_complete, sum(rows)::bigint AS rows,
           bool_or(version IN ('preliminary', 'mixed')) AS is_preliminary
    FROM era5.ledger WHERE dropped_at IS NULL GROUP BY month
), dropped AS (
    SELECT DISTINCT month FROM era5.ledger WHERE dropped_at IS NOT NULL
), attempts AS (
    SELECT DISTINCT ON (month) month, outcome, backend_pid, backend_start FROM era5.load_attempt ORDER BY month, id DESC
)
SELECT month,
       CASE WHEN p.is_complete THEN 'loaded'
            WHEN NOT p.is_complete THEN 'incomplete'
            -- Of other users' sessions, the server may show the pid alone: their backend_start is then NULL.
            WHEN a.outcome = 'running' AND EXISTS (
                SELECT FROM pg_stat_activity s
                WHERE s.pid = a.backend_pid AND coalesce(s.backend_start = a.backend_start, true)
            ) THEN 'loading'
            WHEN d.month IS NOT NULL THEN 'dropped'
            ELSE 'failed' END,
       coalesce(p.rows, 0),
       coalesce(p.is_preliminary, false)
FROM parts p
FULL JOIN dropped d USING (month)
FULL JOIN attempts a USING (month)
ORDER BY month

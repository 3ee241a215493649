-- The sessions that block these sessions. A session that blocks another may itself be waiting: the one at the head of
-- the queue, which waits for no other, is shown.
WITH RECURSIVE behind (waiting, pid) AS (
    SELECT w, b FROM unnest(%s::int[]) w, unnest(pg_blocking_pids(w)) b
    UNION
    SELECT waiting, b FROM behind, unnest(pg_blocking_pids(behind.pid)) b
)
SELECT b.waiting, b.pid, a.usename, host(a.client_addr), a.backend_start, a.state
FROM behind b LEFT JOIN pg_stat_activity a ON a.pid = b.pid
WHERE cardinality(pg_blocking_pids(b.pid)) = 0
ORDER BY b.waiting, b.pid

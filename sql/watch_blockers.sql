-- Who is behind the waits of these sessions: who holds the lock may be waiting in a queue itself, and the one at its head
-- is the one to know of.
WITH RECURSIVE behind (waiting, pid) AS (
    SELECT w, b FROM unnest(%s::int[]) w, unnest(pg_blocking_pids(w)) b
    UNION
    SELECT waiting, b FROM behind, unnest(pg_blocking_pids(behind.pid)) b
)
SELECT b.waiting, b.pid, a.usename, host(a.client_addr), a.backend_start, a.state
FROM behind b LEFT JOIN pg_stat_activity a ON a.pid = b.pid
WHERE cardinality(pg_blocking_pids(b.pid)) = 0
ORDER BY b.waiting, b.pid

-- The sessions that load, or may be loading: the month in their name or table, what each does and waits for, whether it
-- certainly loads (the name alone does not make an idle session a loader), and the progress of its COPY: 0 where it has
-- read nothing yet, NULL where it is unknown.
SELECT a.pid, a.backend_start, a.application_name,
       coalesce(substring(a.application_name from '^{application} (\d{4}-\d{2})(?!\d)'),
                replace(substring(c.relname from '^{weather}_(\d{4}_\d{2})(?!\d)'), '_', '-')),
       CASE WHEN w.locked_out THEN 'waits for a lock' WHEN x.copying THEN 'COPY' WHEN a.state IS NULL THEN %(hidden)s
            WHEN a.state LIKE 'idle%%' THEN %(idle)s
            ELSE coalesce(substring(a.query from '(?i)^\s*SELECT\s+(?:\w+\.)?(\w+)\('),
                          upper(substring(a.query from '(?i)^\s*(\w+(?:\s+(?:INDEX|TABLE)\M)?)')), '?') END,
       CASE WHEN a.state IS NULL THEN %(hidden)s WHEN a.state LIKE 'idle%%' THEN %(idle)s
            ELSE coalesce(a.wait_event_type || ':' || a.wait_event, %(cpu)s) END,
       x.copying OR (a.application_name ~ '^{application} \d{4}-\d{2}(?!\d)' AND coalesce(a.state, '') NOT LIKE 'idle%%'),
       -- Once a COPY has created the compressed part of a chunk, TimescaleDB loses its progress.
       CASE WHEN x.begun THEN p.bytes_processed ELSE 0 END,
       -- TimescaleDB counts bytes but no rows.
       CASE WHEN NOT x.begun THEN 0 WHEN p.tuples_processed > 0 OR p.bytes_processed = 0 THEN p.tuples_processed END
FROM pg_stat_activity a
-- A COPY that waits for the table's lock is not in the progress view yet, so the query's text is searched. A user who may
-- not see a session's query still sees its application_name, and that it is running a COPY.
CROSS JOIN LATERAL (
    SELECT coalesce(a.state = 'active', false)
       AND a.query ~* '^\s*copy\s+("?\w+"?\.)?"?{weather}(_\d{4}_\d{2}(_\d+)?)?\M.*\mfrom\M',
           coalesce(a.state = 'active' AND a.wait_event_type = 'Lock' AND a.wait_event <> 'extend', false)
) w (copies, locked_out)
LEFT JOIN pg_stat_progress_copy p ON p.pid = a.pid AND p.command IS DISTINCT FROM 'COPY TO'
LEFT JOIN pg_class c ON c.oid = p.relid
CROSS JOIN LATERAL (
    SELECT p.pid IS NOT NULL OR w.copies, p.pid IS NOT NULL OR (w.copies AND NOT w.locked_out)
) x (copying, begun)
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.leader_pid IS NULL
  -- The second is the connection on which a load reports its rows.
  AND a.application_name NOT LIKE '{application} watch%%'
  AND a.application_name !~ '^{application} \d{4}-\d{2} progress$'
  AND (a.application_name ~ '^{application}\M' OR c.relname ~ '^{weather}(_\d{4}_\d{2}(_\d+)?)?$' OR w.copies)
ORDER BY a.pid

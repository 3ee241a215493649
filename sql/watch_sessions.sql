-- The sessions that load, or may be loading: what each waits for, its query, and the progress of its COPY. A user who
-- may not see a session's query still sees its application_name, and that it is running a COPY. A COPY that waits for
-- the table's lock is not in the progress view yet, so the query's text is searched.
SELECT a.pid, a.backend_start, a.application_name,
       CASE WHEN a.state IS NULL THEN %(hidden)s WHEN a.state LIKE 'idle%%' THEN %(idle)s
            ELSE coalesce(a.wait_event_type || ':' || a.wait_event, %(cpu)s) END,
       CASE WHEN a.state IS NULL THEN '' ELSE a.query END,
       c.relname, p.pid IS NOT NULL OR w.copies, p.bytes_processed, p.tuples_processed
FROM pg_stat_activity a
CROSS JOIN LATERAL (
    SELECT coalesce(a.state = 'active', false)
       AND a.query ~* '^\s*copy\s+("?\w+"?\.)?"?weather(_\d{4}_\d{2}(_\d+)?)?\M.*\mfrom\M'
) w (copies)
LEFT JOIN pg_stat_progress_copy p ON p.pid = a.pid AND p.command IS DISTINCT FROM 'COPY TO'
LEFT JOIN pg_class c ON c.oid = p.relid
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.leader_pid IS NULL
  -- The second is the connection on which a load reports its rows.
  AND a.application_name NOT LIKE 'era5 watch%%'
  AND a.application_name !~ '^era5 \d{4}-\d{2} progress$'
  AND (a.application_name ~ '^era5\M' OR c.relname ~ '^weather(_\d{4}_\d{2}(_\d+)?)?$' OR w.copies)

-- The outcome of an attempt `a` to load a month: an attempt marked as running was interrupted if its session is gone.
-- For sessions of other users the server may show only the pid; their backend_start is then NULL.
CASE WHEN a.outcome = 'running' AND NOT EXISTS (
         SELECT FROM pg_stat_activity s
         WHERE s.pid = a.backend_pid AND coalesce(s.backend_start = a.backend_start, true)
     ) THEN 'interrupted' ELSE a.outcome END

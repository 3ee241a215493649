-- The outcome of an attempt `a` to load a month: one that is marked as running was interrupted if its session is gone. Of
-- other users' sessions, the server may show the pid alone: their backend_start is then NULL.
CASE WHEN a.outcome = 'running' AND NOT EXISTS (
         SELECT FROM pg_stat_activity s
         WHERE s.pid = a.backend_pid AND coalesce(s.backend_start = a.backend_start, true)
     ) THEN 'interrupted' ELSE a.outcome END

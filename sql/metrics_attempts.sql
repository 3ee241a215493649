-- How many attempts to load a month had each outcome; one that is marked as running was interrupted if its session is
-- gone.
SELECT CASE WHEN a.outcome = 'running' AND NOT EXISTS (
           SELECT FROM pg_stat_activity s
           WHERE s.pid = a.backend_pid AND coalesce(s.backend_start = a.backend_start, true)
       ) THEN 'interrupted' ELSE a.outcome END,
       count(*)
FROM era5.load_attempt a
GROUP BY 1

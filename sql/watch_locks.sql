-- The sessions that load, and their months. A load holds the advisory lock of its month (`locks`) from before its first
-- row to after the last VACUUM, visible to all users; before that, while it sets up the database (`schema`), it holds one
-- of no month, with the number 0.
SELECT pid, CASE WHEN objid::bigint > 0
                 THEN to_char(make_date((objid::bigint / 12)::int, (objid::bigint %% 12)::int + 1, 1), 'YYYY-MM') END
FROM pg_locks
WHERE locktype = 'advisory' AND classid = %s::oid AND objsubid = 2
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY objid

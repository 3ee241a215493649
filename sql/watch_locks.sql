-- Who holds a month or waits for anything. A load holds its month by an advisory lock (`locks`) from before its first row
-- to after the last VACUUM, and all may see that; before, it holds one with no month while it sets up the database
-- (`schema`).
SELECT pid, granted, CASE WHEN is_ours THEN objid::bigint END
FROM pg_locks
CROSS JOIN LATERAL (
    SELECT locktype = 'advisory' AND classid = %(class)s::oid AND objsubid = 2
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
) AS m (is_ours)
WHERE is_ours OR NOT granted

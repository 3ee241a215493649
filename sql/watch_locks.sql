-- Sessions that have locked a month, or wait for any lock. A load locks its month by an advisory lock (`locks`) from before
-- its first row to after the last VACUUM, which every user may see; before that, it holds such a lock with no month while
-- it creates the schema (`schema`).
SELECT pid, granted, CASE WHEN is_ours THEN objid::bigint END
FROM pg_locks
CROSS JOIN LATERAL (
    SELECT locktype = 'advisory' AND classid = %(class)s::oid AND objsubid = 2
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
) AS m (is_ours)
WHERE is_ours OR NOT granted

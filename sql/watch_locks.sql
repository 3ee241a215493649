-- The sessions that hold a month's lock or wait for any lock. A load holds the advisory lock of its month (`locks`)
-- from before its first row to after the last VACUUM, visible to all users; before that, while it sets up the database
-- (`schema`), it holds an advisory lock that belongs to no month.
SELECT pid, granted, CASE WHEN is_ours THEN objid::bigint END
FROM pg_locks
CROSS JOIN LATERAL (
    SELECT locktype = 'advisory' AND classid = %(class)s::oid AND objsubid = 2
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
) AS m (is_ours)
WHERE is_ours OR NOT granted

-- The server's own counts; those of checkpoints are in a view of their own since PostgreSQL 17.
SELECT CASE WHEN NOT pg_is_in_recovery() THEN (pg_current_wal_insert_lsn() - '0/0')::bigint END,
       timed, requested,
       (SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid() AND leader_pid IS NULL),
       pg_has_role('pg_read_all_stats', 'USAGE'),
       pg_size_bytes(current_setting('max_wal_size'))
FROM {checkpoints} AS c (timed, requested)

-- What sessions do besides COPY, and the share of it that is done.
SELECT pid, 'CREATE INDEX', blocks_done::float / nullif(blocks_total, 0)
FROM pg_stat_progress_create_index WHERE datname = current_database()
UNION ALL
SELECT pid, 'VACUUM', heap_blks_scanned::float / nullif(heap_blks_total, 0)
FROM pg_stat_progress_vacuum WHERE datname = current_database()
UNION ALL
SELECT pid, 'ANALYZE', sample_blks_scanned::float / nullif(sample_blks_total, 0)
FROM pg_stat_progress_analyze WHERE datname = current_database()

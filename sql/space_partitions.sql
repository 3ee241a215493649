-- Each partition of weather: its start and end in seconds since 1970 (NULL: not bounded by times), its bytes on disk
-- with indexes and TOAST (of all its shares, if several connections loaded it), and whether it is in the columnstore,
-- which plain PostgreSQL does not have.
WITH partition AS (
    SELECT c.oid, regexp_match(pg_get_expr(c.relpartbound, c.oid), $$FROM \('([^']+)'\) TO \('([^']+)'\)$$) AS bounds
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'weather'::regclass
)
SELECT extract(epoch FROM bounds[1]::timestamptz)::float8,
       extract(epoch FROM bounds[2]::timestamptz)::float8,
       -- NULL: dropped while this runs
       coalesce((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(oid)), 0)::bigint,
       false
FROM partition

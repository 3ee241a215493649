-- Everything to check about a chunk before batches are copied straight into its batch table: that table and its
-- columns, the chunk's status and settings, and the first feature that such a COPY would bypass (NULL: none).
SELECT n.nspname,
       b.relname,
       _timescaledb_functions.chunk_status(c.oid) AS status,
       (SELECT array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod))
        FROM pg_attribute a WHERE a.attrelid = b.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
       array_to_string(s.segmentby, ',') AS segmentby,
       array_to_string(s.orderby, ',') AS orderby,
       (true = ANY(s.orderby_desc)) AS descends,
       h.range_start, h.range_end,
       (SELECT string_agg(what, ', ') FROM (
           SELECT 'the trigger ' || tgname FROM pg_trigger
           WHERE tgrelid IN ('{weather}'::regclass, %(chunk)s::regclass) AND NOT tgisinternal AND tgname <> 'ts_insert_blocker'
           UNION
           SELECT 'the constraint ' || conname FROM pg_constraint
           WHERE (conrelid = '{weather}'::regclass AND contype <> 'n') OR confrelid = '{weather}'::regclass
           UNION
           SELECT 'the unique index ' || indexrelid::regclass FROM pg_index
           WHERE indrelid = '{weather}'::regclass AND indisunique
           UNION
           SELECT 'NOT NULL of ' || attname FROM pg_attribute
           WHERE attrelid = '{weather}'::regclass AND attnum > 0 AND attnotnull
             AND attname NOT IN ('time', 'location_id', 'latitude', 'longitude')
           UNION
           SELECT 'the default of ' || attname FROM pg_attribute
           WHERE attrelid = '{weather}'::regclass AND attnum > 0 AND NOT attisdropped AND atthasdef
           UNION
           SELECT 'row security' FROM pg_class WHERE oid = '{weather}'::regclass AND relrowsecurity
           UNION
           SELECT 'the continuous aggregate ' || view_name FROM timescaledb_information.continuous_aggregates
           WHERE format('%%I.%%I', hypertable_schema, hypertable_name)::regclass = '{weather}'::regclass
       ) AS obstacles (what)) AS obstacles
FROM timescaledb_information.chunks h
JOIN pg_class c ON c.oid = format('%%I.%%I', h.chunk_schema, h.chunk_name)::regclass
LEFT JOIN _timescaledb_catalog.compression_settings s ON s.relid = c.oid
LEFT JOIN pg_class b ON b.oid = s.compress_relid
LEFT JOIN pg_namespace n ON n.oid = b.relnamespace
WHERE c.oid = %(chunk)s::regclass

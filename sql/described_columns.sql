-- The existing views for other programs, each with its comment and its commented columns; and the schema of PostGIS,
-- NULL if it is not installed in this database.
WITH relation AS (
    SELECT c.oid, c.relname::text AS name
    FROM pg_class AS c
    WHERE c.relname = ANY(%(in_era5)s) AND c.relnamespace = to_regnamespace('{schema}')
       OR c.relname = ANY(%(beside_weather)s)
          AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = '{weather}'::regclass)
), described AS (
    SELECT name, coalesce(obj_description(oid, 'pg_class'), '') AS comment,
           ARRAY(SELECT attname::text FROM pg_attribute
                 WHERE attrelid = oid AND attnum > 0 AND NOT attisdropped AND col_description(oid, attnum) IS NOT NULL
           ) AS columns
    FROM relation
)
SELECT (SELECT coalesce(jsonb_object_agg(name, comment), '{}') FROM described),
       (SELECT coalesce(jsonb_object_agg(name, columns), '{}') FROM described),
       (SELECT nspname::text FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'postgis')

-- Whether all objects of sql/locations.sql exist and have comments; and the schema of PostGIS, NULL if it is not
-- installed in this database.
WITH postgis AS (
    SELECT nspname::text AS schema FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'postgis'
), own AS (
    SELECT oid FROM (VALUES ('{schema}.land'), ('{schema}.location')) AS relation (name)
    CROSS JOIN LATERAL CAST(to_regclass(name) AS oid) AS oid
)
SELECT to_regprocedure('{schema}.nearest(double precision, double precision)') IS NOT NULL
           AND NOT EXISTS (SELECT FROM own WHERE oid IS NULL OR obj_description(oid, 'pg_class') IS NULL)
           AND NOT EXISTS (
               SELECT FROM own JOIN pg_attribute ON attrelid = oid AND attnum > 0 AND NOT attisdropped
               WHERE col_description(attrelid, attnum) IS NULL
           )
           AND (
               NOT EXISTS (SELECT FROM postgis)
               OR EXISTS (
                   SELECT FROM pg_attribute WHERE attrelid = to_regclass('{schema}.location') AND attname = 'geom'
               )
           ),
       (SELECT schema FROM postgis)

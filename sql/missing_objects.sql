-- What a database from an earlier version lacks: columns and comments of the ledger's tables, the functions, and the
-- columns of the table weather without a comment (an empty list if that has none, too).
WITH relation AS (
    SELECT oid, name
    FROM (VALUES ('era5.ledger'), ('era5.month'), ('era5.load_attempt'), ('weather')) AS own (name)
    CROSS JOIN LATERAL CAST(to_regclass(name) AS oid) AS oid
    WHERE oid IS NOT NULL
), uncommented AS (
    SELECT name, attname::text AS "column"
    FROM relation
    JOIN pg_attribute ON attrelid = oid AND attnum > 0 AND NOT attisdropped
    WHERE col_description(attrelid, attnum) IS NULL
    UNION ALL
    SELECT name, '' FROM relation WHERE obj_description(oid, 'pg_class') IS NULL
)
SELECT EXISTS (SELECT FROM uncommented WHERE name <> 'weather')
           OR NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('era5.ledger') AND attname = 'flat_file'),
       to_regprocedure('era5.at(double precision, double precision)') IS NULL,
       ARRAY(SELECT "column" FROM uncommented WHERE name = 'weather')

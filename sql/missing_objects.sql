-- Objects that a database lacks because it is new or because somebody removed them: functions; tables, view or comments
-- of the monthly summaries; columns of the table {weather} without a comment ('': the table itself).
WITH relation AS (
    SELECT oid, name
    FROM (VALUES ('{weather}'), ('{schema}.monthly_summary'), ('{schema}.monthly_last_hour')) AS own (name)
    CROSS JOIN LATERAL CAST(to_regclass(name) AS oid) AS oid
    WHERE oid IS NOT NULL
    UNION ALL
    -- A view of that name over another table belongs to somebody else.
    SELECT v.oid, '{weather}_monthly'
    FROM pg_class AS v
    WHERE v.relname = '{weather}_monthly'
      AND EXISTS (SELECT FROM pg_rewrite AS r JOIN pg_depend AS d ON d.objid = r.oid
                  WHERE r.ev_class = v.oid AND d.refobjid = to_regclass('{schema}.monthly_summary'))
), uncommented AS (
    SELECT name, attname::text AS "column"
    FROM relation
    JOIN pg_attribute ON attrelid = oid AND attnum > 0 AND NOT attisdropped
    WHERE col_description(attrelid, attnum) IS NULL
    UNION ALL
    SELECT name, '' FROM relation WHERE obj_description(oid, 'pg_class') IS NULL
)
SELECT to_regprocedure('{schema}.at(double precision, double precision)') IS NULL,
       to_regclass('{schema}.monthly_summary') IS NULL
           OR EXISTS (SELECT FROM uncommented WHERE name IN ('{schema}.monthly_summary', '{schema}.monthly_last_hour', '{weather}_monthly'))
           OR NOT EXISTS (SELECT FROM pg_class AS v JOIN pg_class AS w USING (relnamespace)
                          WHERE w.oid = to_regclass('{weather}') AND v.relname = '{weather}_monthly'),
       ARRAY(SELECT "column" FROM uncommented WHERE name = '{weather}')

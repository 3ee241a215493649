-- Code that a change of the warehouse's tables would run with this user's rights although somebody wrote it who has fewer:
-- functions behind triggers, rules, defaults, constraints, indexes, policies and types of these tables. For a superuser
-- such functions are those of everybody else; for an owner of the schema {schema}, of everybody who is not one.
WITH RECURSIVE trusted AS (
    SELECT oid FROM pg_roles
    WHERE rolsuper OR rolname = current_user
       OR NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
          AND pg_has_role(oid, (SELECT nspowner FROM pg_namespace WHERE nspname = '{schema}'), 'MEMBER')
), parts AS (
    SELECT to_regclass('{weather}')::oid AS oid
    UNION
    SELECT inhrelid FROM pg_inherits JOIN parts ON inhparent = parts.oid
), changed AS (
    SELECT oid FROM parts
    UNION
    SELECT oid FROM pg_class
    WHERE relkind IN ('r', 'p') AND relnamespace = ANY (ARRAY[
        to_regnamespace('{schema}'), to_regnamespace('{schema}_loads'), to_regnamespace('_timescaledb_internal')
    ]::oid[])
    UNION
    SELECT unnest(ARRAY[to_regclass('public.iceberg_tables'), to_regclass('public.iceberg_namespace_properties')]::oid[])
), code AS (
    SELECT 'pg_proc'::regclass::oid AS classid, oid AS objid, oid AS function
    FROM pg_proc
    WHERE proowner NOT IN (SELECT oid FROM trusted)
    UNION
    SELECT next.classid, next.objid, code.function
    FROM code
    CROSS JOIN LATERAL (
        SELECT classid, objid FROM pg_depend WHERE refclassid = code.classid AND refobjid = code.objid
        UNION ALL  -- what it is part of: a trigger of its table, a domain's constraint of the domain
        SELECT refclassid, refobjid FROM pg_depend
        WHERE classid = code.classid AND objid = code.objid AND deptype IN ('a', 'i')
    ) AS next
    WHERE code.classid <> 'pg_class'::regclass OR code.objid NOT IN (SELECT oid FROM changed WHERE oid IS NOT NULL)
)
SELECT changed.oid::regclass::text, p.oid::regprocedure::text, pg_get_userbyid(p.proowner)::text
FROM code
JOIN pg_proc p ON p.oid = code.function
JOIN changed ON code.classid = 'pg_class'::regclass AND changed.oid = code.objid
ORDER BY 1, 2

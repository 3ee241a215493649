-- Records the version of the tables in the schema {schema}. A function rather than a row: pg_dump keeps it with the tables,
-- even with --schema-only, and anyone who may connect can read it in the catalogue without a privilege. {body} is
-- SELECT and the number, which programs read there.
CREATE OR REPLACE FUNCTION {schema}.schema_version() RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS {body};

COMMENT ON FUNCTION {schema}.schema_version() IS
    'The version of the tables in the schema {schema}: programs that know only earlier versions refuse the database'

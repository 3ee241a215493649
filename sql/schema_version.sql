-- Records the version of the tables in the schema era5. A function, not a row: pg_dump keeps it with the tables, also
-- with --schema-only, and everyone who may connect finds it in the catalogue, without a privilege. {body} is SELECT and
-- the number, which programs read there.
CREATE OR REPLACE FUNCTION era5.schema_version() RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS {body};

COMMENT ON FUNCTION era5.schema_version() IS
    'The version of the tables in the schema era5: programs that know only earlier versions refuse the database'

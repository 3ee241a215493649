-- Privileges of the roles of `era5 db init --roles`, besides those of owners. The statements are idempotent.
-- {owner} owns the schema era5, {loader} the table weather and the monthly summaries: PostgreSQL lets only a table's
-- owner attach and drop partitions, add columns, vacuum and compress.

GRANT CONNECT ON DATABASE {database} TO {owner}, {loader}, {reader};

GRANT USAGE ON SCHEMA era5, {schema} TO {loader}, {reader};

-- The rows of a load are written with its row of the ledger.
GRANT SELECT, INSERT, UPDATE, DELETE ON era5.ledger TO {loader};
GRANT SELECT, INSERT, UPDATE ON era5.load_attempt TO {loader};
GRANT SELECT ON era5.month TO {loader};

GRANT SELECT ON era5.location, era5.land, era5.variable, era5.table_column, era5.missing_hours, era5.preliminary_hours,
    era5.catalogue TO {loader}, {reader};
-- A load by a later version knows more variables.
GRANT INSERT, UPDATE ON era5.catalogue TO {loader};

-- Partitions and chunks are read through the table: new ones need no grant.
GRANT SELECT ON weather, era5.ledger, era5.load_attempt, era5.month TO {reader};
GRANT EXECUTE ON FUNCTION {functions} TO {loader}, {reader};

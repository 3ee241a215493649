-- Privileges of the roles of `era5 db init --roles`, besides those of owners. The statements are idempotent.
-- {owner} owns the schema {schema}, {loader} the table {weather} and the monthly summaries: PostgreSQL lets only a table's
-- owner attach and drop partitions, add columns, vacuum and compress.

GRANT CONNECT ON DATABASE {database} TO {owner}, {loader}, {reader};

GRANT USAGE ON SCHEMA {schema}, {weather_schema} TO {loader}, {reader};

-- The rows of a load are written with its row of the ledger.
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.ledger TO {loader};
GRANT SELECT, INSERT, UPDATE ON {schema}.load_attempt TO {loader};
GRANT SELECT ON {schema}.month TO {loader};

GRANT SELECT ON {schema}.location, {schema}.land, {schema}.variable, {schema}.table_column, {schema}.missing_hours, {schema}.preliminary_hours,
    {schema}.catalogue TO {loader}, {reader};
-- A load by a later version knows more variables.
GRANT INSERT, UPDATE ON {schema}.catalogue TO {loader};

-- Partitions and chunks are read through the table: new ones need no grant.
GRANT SELECT ON {weather}, {schema}.ledger, {schema}.load_attempt, {schema}.month TO {reader};
GRANT EXECUTE ON FUNCTION {functions} TO {loader}, {reader};

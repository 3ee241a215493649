-- Descriptions for programs: the catalogue of variables, the variables that the table {weather} has, and the columns of
-- all public relations, with their units. The statements are idempotent. `weather_table`: the table's name.

CREATE TABLE IF NOT EXISTS {schema}.catalogue (
    column_name   text PRIMARY KEY,
    unit          text NOT NULL,
    cf_unit       text NOT NULL,
    short_name    text NOT NULL,
    param_id      integer NOT NULL,
    cds_name      text NOT NULL,
    long_name     text NOT NULL,
    standard_name text,
    cell_method   text NOT NULL,
    extent        text NOT NULL,
    description   text NOT NULL
);

COMMENT ON TABLE {schema}.catalogue IS
    'The variables of {dataset} that can be loaded, written by era5 db init and loads. Those that are loaded: {schema}.variable';
COMMENT ON COLUMN {schema}.catalogue.column_name IS 'Name of the column of {weather}';
COMMENT ON COLUMN {schema}.catalogue.unit IS 'Unit of the values in {weather}';
COMMENT ON COLUMN {schema}.catalogue.cf_unit IS 'The same unit as CF and udunits write it';
COMMENT ON COLUMN {schema}.catalogue.short_name IS 'Name in files of {dataset}';
COMMENT ON COLUMN {schema}.catalogue.param_id IS 'Number in ECMWF''s parameter database';
COMMENT ON COLUMN {schema}.catalogue.cds_name IS 'Name in requests to the Climate Data Store';
COMMENT ON COLUMN {schema}.catalogue.long_name IS 'ECMWF''s name';
COMMENT ON COLUMN {schema}.catalogue.standard_name IS 'Name in the standard name table of CF; NULL: it has none that is exactly this';
COMMENT ON COLUMN {schema}.catalogue.cell_method IS
    'point: of the instant; sum, mean, maximum or minimum: of the hour that ends at the time';
COMMENT ON COLUMN {schema}.catalogue.extent IS
    'everywhere; sea: NULL over land; sometimes: NULL where there is no such thing';
COMMENT ON COLUMN {schema}.catalogue.description IS 'What it is';

CREATE OR REPLACE VIEW {schema}.variable AS
SELECT column_name, c.unit, c.cf_unit, c.short_name, c.param_id, c.cds_name, c.long_name, c.standard_name, c.cell_method,
       c.extent, c.description, held.first_month, held.last_month, coalesce(held.months, 0) AS months
FROM {schema}.catalogue AS c
JOIN pg_attribute AS a
    ON a.attrelid = to_regclass({weather_table}) AND NOT a.attisdropped AND a.attname::text = c.column_name
LEFT JOIN (
    SELECT facts ->> 'column' AS column_name, min(month) AS first_month, max(month) AS last_month,
           count(DISTINCT month)::integer AS months
    FROM {schema}.ledger
    CROSS JOIN jsonb_array_elements(columns) AS facts
    WHERE dropped_at IS NULL
    GROUP BY 1
) AS held USING (column_name);

COMMENT ON VIEW {schema}.variable IS 'One row per variable that {weather} has a column of: its unit, its names, and the months that have values';
COMMENT ON COLUMN {schema}.variable.column_name IS 'Name of the column of {weather}';
COMMENT ON COLUMN {schema}.variable.unit IS 'Unit of the values in {weather}';
COMMENT ON COLUMN {schema}.variable.cf_unit IS 'The same unit as CF and udunits write it';
COMMENT ON COLUMN {schema}.variable.short_name IS 'Name in files of {dataset}';
COMMENT ON COLUMN {schema}.variable.param_id IS 'Number in ECMWF''s parameter database';
COMMENT ON COLUMN {schema}.variable.cds_name IS 'Name in requests to the Climate Data Store';
COMMENT ON COLUMN {schema}.variable.long_name IS 'ECMWF''s name';
COMMENT ON COLUMN {schema}.variable.standard_name IS 'Name in the standard name table of CF; NULL: it has none that is exactly this';
COMMENT ON COLUMN {schema}.variable.cell_method IS
    'point: of the instant; sum, mean, maximum or minimum: of the hour that ends at the time';
COMMENT ON COLUMN {schema}.variable.extent IS
    'everywhere; sea: NULL over land; sometimes: NULL where there is no such thing';
COMMENT ON COLUMN {schema}.variable.description IS 'What it is';
COMMENT ON COLUMN {schema}.variable.first_month IS 'First day of the first month with values at any location; NULL: none has';
COMMENT ON COLUMN {schema}.variable.last_month IS 'First day of the last month with values at any location';
COMMENT ON COLUMN {schema}.variable.months IS 'Number of months with values at any location';

-- A summary has the unit of its variable. The names of other columns with units are the same wherever they occur.
CREATE OR REPLACE VIEW {schema}.table_column AS
SELECT n.nspname::text AS table_schema,
       c.relname::text AS table_name,
       a.attname::text AS column_name,
       a.attnum::integer AS position,
       format_type(a.atttypid, a.atttypmod) AS type,
       coalesce(
           variable.unit,
           summarised.unit,
           CASE
               WHEN a.attname ~ '(^|_)hours(_min|_expected)?$' AND a.atttypid <> 'jsonb'::regtype THEN 'hours'
               WHEN a.attname = 'latitude' THEN 'degrees_north'
               WHEN a.attname = 'longitude' THEN 'degrees_east'
               WHEN a.attname = 'land_share' THEN 'fraction'
               WHEN a.attname ~ '^wind_speed_' THEN 'm/s'
               WHEN a.attname ~ '^wind_direction_' THEN 'degrees'
               WHEN a.attname ~ '_bytes$' THEN 'bytes'
           END
       ) AS unit,
       col_description(c.oid, a.attnum) AS description
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN {schema}.catalogue AS variable ON variable.column_name = a.attname::text
LEFT JOIN {schema}.catalogue AS summarised
    ON summarised.column_name = regexp_replace(a.attname::text, '_(mean|min|max|sum)$', '')
WHERE c.relkind IN ('r', 'p', 'v')
  AND NOT c.relispartition
  AND (
      n.nspname = '{schema}'
      OR c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass({weather_table}))
         AND c.relname IN ('{weather}', '{weather}_daily', '{weather}_monthly', '{weather}_monthly_map')
  )
  AND has_table_privilege(c.oid, 'SELECT');

COMMENT ON VIEW {schema}.table_column IS
    'One row per column of the tables and views of this warehouse that the user may read: its unit and its description';
COMMENT ON COLUMN {schema}.table_column.table_schema IS 'Schema of the table or view';
COMMENT ON COLUMN {schema}.table_column.table_name IS 'Name of the table or view';
COMMENT ON COLUMN {schema}.table_column.column_name IS 'Name of the column';
COMMENT ON COLUMN {schema}.table_column.position IS 'Ascending in the order of the columns; numbers may be left out';
COMMENT ON COLUMN {schema}.table_column.type IS 'Type of PostgreSQL';
COMMENT ON COLUMN {schema}.table_column.unit IS 'Unit of the values; NULL: they have none';
COMMENT ON COLUMN {schema}.table_column.description IS 'The comment of the column: what it is, in which unit';

-- The ledger's runs of hours as rows: missing hours, and preliminary ones. The ledger stores them as text:
-- 2023-09-08T00, or 2023-09-08T00 to 2023-09-30T23.

CREATE OR REPLACE VIEW {schema}.missing_hours AS
SELECT month, of_column.key AS column_name, first_time, last_time,
       (extract(epoch FROM last_time - first_time) / 3600)::integer + 1 AS hours,
       locations, location_ids
FROM {schema}.ledger
CROSS JOIN jsonb_each(missing_hours) AS of_column
CROSS JOIN jsonb_array_elements_text(of_column.value) AS run
CROSS JOIN LATERAL (
    SELECT (left(run, 13) || ':00Z')::timestamptz AS first_time, (right(run, 13) || ':00Z')::timestamptz AS last_time
) AS bounds
WHERE dropped_at IS NULL;

COMMENT ON VIEW {schema}.missing_hours IS
    'One row per run of hours at which a column is NULL although the month is loaded. Months that are not loaded: {schema}.month lacks them';
COMMENT ON COLUMN {schema}.missing_hours.month IS 'First day of the month';
COMMENT ON COLUMN {schema}.missing_hours.column_name IS 'Column of {weather} that lacks values';
COMMENT ON COLUMN {schema}.missing_hours.first_time IS 'First hour of the run';
COMMENT ON COLUMN {schema}.missing_hours.last_time IS 'Last hour of the run, which lacks a value, too';
COMMENT ON COLUMN {schema}.missing_hours.hours IS 'Number of hours of the run';
COMMENT ON COLUMN {schema}.missing_hours.locations IS 'Number of locations of the part of the month: at least one of them lacks each hour';
COMMENT ON COLUMN {schema}.missing_hours.location_ids IS 'These locations, as runs of location_id';

CREATE OR REPLACE VIEW {schema}.preliminary_hours AS
SELECT month, of_column.key AS column_name, first_time, last_time,
       (extract(epoch FROM last_time - first_time) / 3600)::integer + 1 AS hours,
       locations, location_ids
FROM {schema}.ledger
CROSS JOIN jsonb_each(preliminary_hours) AS of_column
CROSS JOIN jsonb_array_elements_text(of_column.value) AS run
CROSS JOIN LATERAL (
    SELECT (left(run, 13) || ':00Z')::timestamptz AS first_time, (right(run, 13) || ':00Z')::timestamptz AS last_time
) AS bounds
WHERE dropped_at IS NULL;

COMMENT ON VIEW {schema}.preliminary_hours IS
    'One row per run of hours whose values are preliminary (ERA5T): final ones, some months later, may differ';
COMMENT ON COLUMN {schema}.preliminary_hours.month IS 'First day of the month';
COMMENT ON COLUMN {schema}.preliminary_hours.column_name IS 'Column of {weather}';
COMMENT ON COLUMN {schema}.preliminary_hours.first_time IS 'First hour of the run';
COMMENT ON COLUMN {schema}.preliminary_hours.last_time IS 'Last hour of the run, which is preliminary, too';
COMMENT ON COLUMN {schema}.preliminary_hours.hours IS 'Number of hours of the run';
COMMENT ON COLUMN {schema}.preliminary_hours.locations IS 'Number of locations of the part of the month';
COMMENT ON COLUMN {schema}.preliminary_hours.location_ids IS 'These locations, as runs of location_id';

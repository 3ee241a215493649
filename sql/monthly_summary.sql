-- Monthly summaries of each location, written by loads; the basis of the view {weather}_monthly. `columns` and
-- `last_hours`: the columns of variables. One partition a year, created by the first load that needs it, so that its
-- index, which a global load touches throughout, fits into memory.
CREATE TABLE IF NOT EXISTS {schema}.monthly_summary (
    location_id integer NOT NULL,
    month date NOT NULL,
    wind_speed_10m_mean double precision,
    {columns},
    PRIMARY KEY (location_id, month)
) PARTITION BY RANGE (month);

-- A load writes a month's rows together: this finds them, without reading the other months of the year.
CREATE INDEX IF NOT EXISTS monthly_summary_month ON {schema}.monthly_summary USING brin (month) WITH (pages_per_range = 32);

COMMENT ON TABLE {schema}.monthly_summary IS
    'Summaries of each location and month, written with the hours by each load. To be read by the view {weather}_monthly';
COMMENT ON COLUMN {schema}.monthly_summary.location_id IS 'Number of the grid point, as in {weather}';
COMMENT ON COLUMN {schema}.monthly_summary.month IS 'First day of the month, UTC';
COMMENT ON COLUMN {schema}.monthly_summary.wind_speed_10m_mean IS
    'Mean of the hourly wind speed 10 m above the surface, over the hours that have both components; m/s';

-- The last hour of a month's totals ends at 00:00 of the next month and arrives with that month's load. It is stored in
-- this separate table, under the month it belongs to, so that a condition on the view's month applies to both tables.
-- Loads append at the end of the index, so no partitions are needed; the planner would examine each one for every row.
CREATE TABLE IF NOT EXISTS {schema}.monthly_last_hour (
    month date NOT NULL,
    location_id integer NOT NULL,
    {last_hours},
    PRIMARY KEY (month, location_id)
);

COMMENT ON TABLE {schema}.monthly_last_hour IS
    'The last hour of each location and month, of totals: written by the load of the next month. To be read by the view {weather}_monthly';
COMMENT ON COLUMN {schema}.monthly_last_hour.month IS 'First day of the month that the hour belongs to, UTC';
COMMENT ON COLUMN {schema}.monthly_last_hour.location_id IS 'Number of the grid point, as in {weather}';

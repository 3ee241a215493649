-- Summaries of each location's months, as loads write them: what the view weather_monthly is made of. `columns` and
-- `last_hours`: the columns of variables. One partition a year, made by the first load that needs it: its index fits into
-- memory, where a load of the globe adds to all of it.
CREATE TABLE IF NOT EXISTS era5.monthly_summary (
    location_id integer NOT NULL,
    month date NOT NULL,
    wind_speed_10m_mean double precision,
    {columns},
    PRIMARY KEY (location_id, month)
) PARTITION BY RANGE (month);

-- A load writes a month's rows together: this finds them, without reading the other months of the year.
CREATE INDEX IF NOT EXISTS monthly_summary_month ON era5.monthly_summary USING brin (month) WITH (pages_per_range = 32);

COMMENT ON TABLE era5.monthly_summary IS
    'Summaries of each location and month, written with the hours by each load. To be read by the view weather_monthly';
COMMENT ON COLUMN era5.monthly_summary.location_id IS 'Number of the grid point, as in weather';
COMMENT ON COLUMN era5.monthly_summary.month IS 'First day of the month, UTC';
COMMENT ON COLUMN era5.monthly_summary.wind_speed_10m_mean IS
    'Mean of the hourly wind speed 10 m above the surface, over the hours that have both components; m/s';

-- The last hour of a month's totals ends at 00:00 of the next month, and comes with the load of that. A table of its own,
-- under the month that it belongs to: a condition on the month of the view holds for both tables. Loads add at the end of
-- the index, so that it needs no partitions, of which the planner would count each for each row that it looks up.
CREATE TABLE IF NOT EXISTS era5.monthly_last_hour (
    month date NOT NULL,
    location_id integer NOT NULL,
    {last_hours},
    PRIMARY KEY (month, location_id)
);

COMMENT ON TABLE era5.monthly_last_hour IS
    'The last hour of each location and month, of totals: written by the load of the next month. To be read by the view weather_monthly';
COMMENT ON COLUMN era5.monthly_last_hour.month IS 'First day of the month that the hour belongs to, UTC';
COMMENT ON COLUMN era5.monthly_last_hour.location_id IS 'Number of the grid point, as in weather';

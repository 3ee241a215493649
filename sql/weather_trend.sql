-- Trends and normals at many places, computed by `era5 climate --everywhere --save`: one row for each location,
-- variable, statistic and part of the year.
CREATE TABLE IF NOT EXISTS {table} (
    location_id integer NOT NULL,
    latitude real NOT NULL,
    longitude real NOT NULL,
    variable text NOT NULL,
    statistic text NOT NULL,
    part text NOT NULL,
    unit text NOT NULL,
    first_year smallint,
    last_year smallint,
    years smallint NOT NULL,
    slope real,
    low real,
    high real,
    p real,
    lag1 real,
    effective_years real,
    method text,
    baseline_first smallint NOT NULL,
    baseline_last smallint NOT NULL,
    baseline_years smallint NOT NULL,
    normal real,
    version text,
    computed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (variable, statistic, part, location_id)
);

-- Tables of earlier versions lack these columns.
ALTER TABLE {table}
    ADD COLUMN IF NOT EXISTS version text,
    ADD COLUMN IF NOT EXISTS p real,
    ADD COLUMN IF NOT EXISTS lag1 real,
    ADD COLUMN IF NOT EXISTS effective_years real,
    ADD COLUMN IF NOT EXISTS method text;

COMMENT ON TABLE {table} IS
    'Trends and normals at each place, written by era5 climate --everywhere --save: as they were at computed_at';
COMMENT ON COLUMN {table}.location_id IS 'Number of the grid point, as in {weather}';
COMMENT ON COLUMN {table}.latitude IS 'Degrees north';
COMMENT ON COLUMN {table}.longitude IS 'Degrees east';
COMMENT ON COLUMN {table}.variable IS 'Column of {weather} that the numbers are of';
COMMENT ON COLUMN {table}.statistic IS 'What a year has of its hours: their mean or, of totals, their sum';
COMMENT ON COLUMN {table}.part IS 'Part of each year: year, a season (DJF, MAM, JJA, SON) or a month (01 to 12), UTC';
COMMENT ON COLUMN {table}.unit IS 'Unit of normal; of slope, low and high per decade';
COMMENT ON COLUMN {table}.first_year IS 'First complete year of the trend';
COMMENT ON COLUMN {table}.last_year IS 'Last complete year of the trend';
COMMENT ON COLUMN {table}.years IS 'Number of complete years: no more than a day of hours is missing';
COMMENT ON COLUMN {table}.slope IS
    'Change per decade, by ordinary least squares; NULL with fewer than 20 complete years';
COMMENT ON COLUMN {table}.low IS
    'Lower end of the 95 % interval of slope, which allows for the autocorrelation of the years; NULL if all are the same';
COMMENT ON COLUMN {table}.high IS 'Upper end of the 95 % interval of slope';
COMMENT ON COLUMN {table}.p IS
    'Two-sided p-value of slope at this place alone; of many places, some are below 0.05 by chance';
COMMENT ON COLUMN {table}.lag1 IS 'Lag-1 autocorrelation of the residuals';
COMMENT ON COLUMN {table}.effective_years IS 'Independent years that would determine slope as well';
COMMENT ON COLUMN {table}.method IS 'Method of slope, interval and p, with its version; NULL in rows of before 2026-12';
COMMENT ON COLUMN {table}.baseline_first IS 'First year of the baseline';
COMMENT ON COLUMN {table}.baseline_last IS 'Last year of the baseline';
COMMENT ON COLUMN {table}.baseline_years IS 'Complete years of the baseline';
COMMENT ON COLUMN {table}.normal IS 'Mean over the complete years of the baseline; NULL with fewer than 10';
COMMENT ON COLUMN {table}.computed_at IS 'When the row was written';
COMMENT ON COLUMN {table}.version IS
    'Version of {dataset} of all hours of the answer: final, preliminary, mixed, unknown; generated or partly generated: then low and high are NULL'

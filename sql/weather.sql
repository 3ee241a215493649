-- The table of the study: one row per location and hour. The layout adds the clause that divides it by time.
-- `variables`: a column of type real for each variable of era5_pipeline/model/variables.py.
CREATE TABLE {weather} (
    time        timestamptz NOT NULL,
    location_id integer,
    latitude    real,
    longitude   real,
    {variables}
) {partitioning}

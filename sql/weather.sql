-- The table of the study: one row per place and hour. How it is cut by time is the layout's matter (the other files).
-- `variables`: a column of type real for each variable of era5_pipeline/model/variables.py.
CREATE TABLE weather (
    time        timestamptz NOT NULL,
    location_id integer,
    latitude    real,
    longitude   real,
    {variables}
) {partitioning}

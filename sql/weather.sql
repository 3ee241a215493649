-- The table of the study: one row per place and hour. How it is cut by time is the layout's matter (the other files).
CREATE TABLE weather (
    time                timestamptz NOT NULL,
    location_id         integer,
    latitude            real,
    longitude           real,
    temperature_2m      real,
    zonal_wind_10m      real,
    meridional_wind_10m real,
    total_cloud_cover   real,
    total_precipitation real,
    snowfall            real
) {partitioning}

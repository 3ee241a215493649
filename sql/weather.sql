-- The table of the study: one row per location and hour. The layout adds the clause that divides it by time.
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

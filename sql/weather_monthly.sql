-- The view of monthly summaries. A total is labelled with the end of its hour, so a month's last hour arrives with the
-- next month. If a query asks for no total, the planner omits the table of last hours.
CREATE OR REPLACE VIEW {view} AS
SELECT s.location_id,
       ((s.location_id - 1) / {grid_columns} * {step} - 90)::real AS latitude,
       ((s.location_id - 1) % {grid_columns} * {step} - {west})::real AS longitude,
       s.month,
       (extract(day FROM s.month + interval '1 month' - interval '1 day') * 24)::smallint AS month_hours,
       s.wind_speed_10m_mean,
       -- 0 - x, because -x of 0 would be -0, and the wind of 180 degrees one of -180.
       CASE WHEN s.zonal_wind_10m_mean <> 0 OR s.meridional_wind_10m_mean <> 0
            THEN degrees(atan2(0 - s.zonal_wind_10m_mean, 0 - s.meridional_wind_10m_mean))
                 + CASE WHEN s.zonal_wind_10m_mean > 0 THEN 360 ELSE 0 END
       END AS wind_direction_10m_prevailing,
       {columns}
FROM {schema}.monthly_summary AS s
LEFT JOIN {schema}.monthly_last_hour AS n ON n.month = s.month AND n.location_id = s.location_id;

COMMENT ON VIEW {view} IS
    '{dataset} by month: one row for each location and calendar month (UTC), of the hours in {weather}. NULL: the files lack the variable';
COMMENT ON COLUMN {view}.location_id IS 'Number of the grid point, as in {weather}: {schema}.at(latitude, longitude)';
COMMENT ON COLUMN {view}.latitude IS 'Degrees north. To find a place, location_id is faster';
COMMENT ON COLUMN {view}.longitude IS 'Degrees east. To find a place, location_id is faster';
COMMENT ON COLUMN {view}.month IS 'First day of the month';
COMMENT ON COLUMN {view}.month_hours IS 'Hours of the calendar month: 672 to 744';
COMMENT ON COLUMN {view}.wind_speed_10m_mean IS
    'Mean of the hourly wind speed 10 m above the surface, over the hours that have both components; m/s';
COMMENT ON COLUMN {view}.wind_direction_10m_prevailing IS
    'Direction from which the mean wind comes (that of the mean components); degrees clockwise from north, NULL in a calm';
{comments}

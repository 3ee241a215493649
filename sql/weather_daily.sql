-- The view of days, and a function with the same rows for a period. `hourly`: all hours, or those of the period.
--
-- An hourly total is labelled with the end of its hour: the total of 00:00 belongs to the previous day and is read from
-- the next day's row. The location is in the window's PARTITION BY and in the GROUP BY, so that a condition on it
-- reaches the scan of the hours. A day is computed from its hours, so a condition on the day does not: hence the
-- function.
SELECT location_id,
       ((location_id - 1) / {grid_columns} * {step} - 90)::real AS latitude,
       ((location_id - 1) % {grid_columns} * {step} - {west})::real AS longitude,
       day,
       hours,
       wind_speed_10m_mean,
       wind_speed_10m_max,
       -- 0 - x, because -x of 0 would be -0, and the wind of 180 degrees one of -180.
       CASE WHEN zonal_wind_10m_mean <> 0 OR meridional_wind_10m_mean <> 0
            THEN degrees(atan2(0 - zonal_wind_10m_mean, 0 - meridional_wind_10m_mean))
                 + CASE WHEN zonal_wind_10m_mean > 0 THEN 360 ELSE 0 END
       END AS wind_direction_10m_prevailing,
       {columns}
FROM (
    SELECT location_id,
           day,
           hours,
           wind_speed_10m_mean,
           wind_speed_10m_max,
           {with_last_hours}
    FROM (
        SELECT location_id,
               (time AT TIME ZONE 'UTC')::date AS day,
               count(*)::smallint AS hours,
               avg({speed}) AS wind_speed_10m_mean,
               max({speed})::real AS wind_speed_10m_max,
               {aggregates}
        FROM {weather_table}{hourly}
        GROUP BY location_id, (time AT TIME ZONE 'UTC')::date
    ) AS of_day
    WINDOW by_day AS (PARTITION BY location_id ORDER BY day)
) AS days{days}

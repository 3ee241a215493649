-- A database of schema version 1, as pg_dump 18.4 wrote it: January 2023 at 6 S 106 E, temperature and precipitation, of the
-- source sample; without the views, functions and tables of land and variables, which loads make again. Never change it.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA era5;
COMMENT ON SCHEMA era5 IS 'The ledger of the months in the table weather';
CREATE FUNCTION era5.schema_version() RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$SELECT 1$$;
COMMENT ON FUNCTION era5.schema_version() IS 'The version of the tables in the schema era5: programs that know only earlier versions refuse the database';
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE era5.ledger (
    month date NOT NULL,
    part integer NOT NULL,
    state text NOT NULL,
    rows bigint NOT NULL,
    locations integer NOT NULL,
    location_ids int4multirange NOT NULL,
    is_cut boolean DEFAULT false NOT NULL,
    hours integer NOT NULL,
    hours_expected integer NOT NULL,
    missing_hours jsonb NOT NULL,
    source text NOT NULL,
    area text,
    expver jsonb NOT NULL,
    columns jsonb NOT NULL,
    files jsonb NOT NULL,
    warnings text[] NOT NULL,
    raw_bytes bigint NOT NULL,
    flat_bytes bigint NOT NULL,
    flat_file jsonb NOT NULL,
    seconds jsonb NOT NULL,
    versions jsonb NOT NULL,
    fingerprint text NOT NULL,
    loaded_at timestamp with time zone DEFAULT now() NOT NULL,
    preliminary_hours jsonb DEFAULT '{}'::jsonb NOT NULL,
    version text NOT NULL,
    checked_at timestamp with time zone NOT NULL,
    revised_at timestamp with time zone,
    revision jsonb,
    dropped_at timestamp with time zone,
    has_summaries boolean NOT NULL,
    additions jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT ledger_check CHECK (((dropped_at IS NULL) = (state <> 'dropped'::text))),
    CONSTRAINT ledger_month_check CHECK ((EXTRACT(day FROM month) = (1)::numeric)),
    CONSTRAINT ledger_state_check CHECK ((state = ANY (ARRAY['loaded'::text, 'incomplete'::text, 'dropped'::text]))),
    CONSTRAINT ledger_version_check CHECK ((version = ANY (ARRAY['final'::text, 'preliminary'::text, 'mixed'::text, 'unknown'::text])))
);
COMMENT ON TABLE era5.ledger IS 'One row per part of a month in weather: what it was made of, written by the load itself. Dropped parts stay here';
COMMENT ON COLUMN era5.ledger.month IS 'The month''s first day';
COMMENT ON COLUMN era5.ledger.part IS 'Number of the part within its month; a set of locations loaded again keeps it';
COMMENT ON COLUMN era5.ledger.state IS 'loaded: every location has every hour of each column; incomplete: some are missing, and this was allowed; dropped';
COMMENT ON COLUMN era5.ledger.rows IS 'Rows of the month in weather';
COMMENT ON COLUMN era5.ledger.locations IS 'Grid points that have rows';
COMMENT ON COLUMN era5.ledger.location_ids IS 'The locations of the part, as runs of location_id; later loads of some of them take these out';
COMMENT ON COLUMN era5.ledger.is_cut IS 'Whether later loads or drops took locations out: columns, expver and bytes are then those of the part as loaded';
COMMENT ON COLUMN era5.ledger.hours IS 'Hours that have rows';
COMMENT ON COLUMN era5.ledger.hours_expected IS 'Hours of the month, in UTC: 672 to 744';
COMMENT ON COLUMN era5.ledger.missing_hours IS 'Runs of hours by column at which any of the locations lacks a value, for the columns that lack some';
COMMENT ON COLUMN era5.ledger.source IS 'Where the files came from: cds, arco, files or sample';
COMMENT ON COLUMN era5.ledger.area IS 'The rectangle asked for, NORTH/WEST/SOUTH/EAST in degrees; NULL: all that the source holds';
COMMENT ON COLUMN era5.ledger.expver IS 'Hours per version and column: 0001 final, 0005 preliminary (ERA5T), unknown';
COMMENT ON COLUMN era5.ledger.columns IS 'Facts per column that the files hold; the other columns are NULL';
COMMENT ON COLUMN era5.ledger.files IS 'The files that the rows were made from: path, bytes and SHA-256';
COMMENT ON COLUMN era5.ledger.warnings IS 'What was odd about the files, in words';
COMMENT ON COLUMN era5.ledger.raw_bytes IS 'Size of those files, in bytes';
COMMENT ON COLUMN era5.ledger.flat_bytes IS 'Size of the flat file of rows, in bytes';
COMMENT ON COLUMN era5.ledger.flat_file IS 'The flat file of rows, which may have been removed since: path, bytes and SHA-256';
COMMENT ON COLUMN era5.ledger.seconds IS 'Seconds that each stage took: raw, flat, load';
COMMENT ON COLUMN era5.ledger.versions IS 'Versions of the software that made and loaded the rows';
COMMENT ON COLUMN era5.ledger.fingerprint IS 'The same for the same files and request: if it is equal, nothing changed';
COMMENT ON COLUMN era5.ledger.loaded_at IS 'When the rows were written; a month that is confirmed keeps it';
COMMENT ON COLUMN era5.ledger.preliminary_hours IS 'Runs of preliminary (ERA5T) hours, for the columns that have some';
COMMENT ON COLUMN era5.ledger.version IS 'final, preliminary, mixed (some hours are preliminary) or unknown (the files do not say)';
COMMENT ON COLUMN era5.ledger.checked_at IS 'When the source was last asked, and its answer compared with the table';
COMMENT ON COLUMN era5.ledger.revised_at IS 'When final data last replaced preliminary data; NULL: never';
COMMENT ON COLUMN era5.ledger.revision IS 'What that changed: preliminary hours, columns and files before';
COMMENT ON COLUMN era5.ledger.dropped_at IS 'When era5 drop removed the rows; NULL: they are in weather';
COMMENT ON COLUMN era5.ledger.has_summaries IS 'Whether weather_monthly has the summaries of the locations; if not, era5 db summaries adds them';
COMMENT ON COLUMN era5.ledger.additions IS 'Columns that later loads added to the rows, each with its own source, area, files, flat file, fingerprint and time';
CREATE TABLE era5.load_attempt (
    id bigint NOT NULL,
    month date NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    finished_at timestamp with time zone,
    outcome text DEFAULT 'running'::text NOT NULL,
    error text,
    rows bigint,
    backend_pid integer DEFAULT pg_backend_pid() NOT NULL,
    backend_start timestamp with time zone,
    CONSTRAINT load_attempt_outcome_check CHECK ((outcome = ANY (ARRAY['running'::text, 'loaded'::text, 'failed'::text])))
);
COMMENT ON TABLE era5.load_attempt IS 'One row per attempt to load a month; running although its backend has ended means interrupted';
COMMENT ON COLUMN era5.load_attempt.id IS 'Ascending in the order of the attempts';
COMMENT ON COLUMN era5.load_attempt.month IS 'The month''s first day';
COMMENT ON COLUMN era5.load_attempt.started_at IS 'When it began';
COMMENT ON COLUMN era5.load_attempt.finished_at IS 'When it ended; NULL: not yet, or interrupted';
COMMENT ON COLUMN era5.load_attempt.outcome IS 'running, loaded or failed';
COMMENT ON COLUMN era5.load_attempt.error IS 'Why it failed';
COMMENT ON COLUMN era5.load_attempt.rows IS 'Rows sent so far; once loaded, the rows of the month';
COMMENT ON COLUMN era5.load_attempt.backend_pid IS 'The process of the session that loads, on the server';
COMMENT ON COLUMN era5.load_attempt.backend_start IS 'When that session began: numbers of processes are used again';
ALTER TABLE era5.load_attempt ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME era5.load_attempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE VIEW era5.month AS
 SELECT month,
        CASE
            WHEN bool_and((state = 'loaded'::text)) THEN 'loaded'::text
            ELSE 'incomplete'::text
        END AS state,
    count(*) AS parts,
    (sum(rows))::bigint AS rows,
    (sum(locations))::integer AS locations,
    range_agg(location_ids) AS location_ids,
    min(hours) AS hours_min,
    max(hours_expected) AS hours_expected,
    ( SELECT string_agg(DISTINCT own.name, ', '::text ORDER BY own.name) AS string_agg
           FROM (era5.ledger part
             CROSS JOIN LATERAL ( SELECT part.source AS name
                UNION
                 SELECT (added.value ->> 'source'::text)
                   FROM jsonb_array_elements(part.additions) added(value)) own)
          WHERE ((part.month = ledger.month) AND (part.dropped_at IS NULL))) AS sources,
    string_agg(DISTINCT version, ', '::text ORDER BY version) AS versions,
    max(loaded_at) AS loaded_at
   FROM era5.ledger
  WHERE (dropped_at IS NULL)
  GROUP BY month;
COMMENT ON VIEW era5.month IS 'One row per month in weather: the sum of its parts in era5.ledger';
COMMENT ON COLUMN era5.month.month IS 'First day of the month';
COMMENT ON COLUMN era5.month.state IS 'loaded: every location has every hour of each column of its part; else incomplete';
COMMENT ON COLUMN era5.month.parts IS 'Number of parts';
COMMENT ON COLUMN era5.month.rows IS 'Rows in weather';
COMMENT ON COLUMN era5.month.locations IS 'Locations in weather';
COMMENT ON COLUMN era5.month.location_ids IS 'The locations, as runs of location_id';
COMMENT ON COLUMN era5.month.hours_min IS 'Hours that the part with the fewest has';
COMMENT ON COLUMN era5.month.hours_expected IS 'Hours of the month';
COMMENT ON COLUMN era5.month.sources IS 'Where its parts came from';
COMMENT ON COLUMN era5.month.versions IS 'Versions of its parts: final, preliminary, mixed, unknown';
COMMENT ON COLUMN era5.month.loaded_at IS 'When rows of the month were last written';
CREATE TABLE era5.monthly_last_hour (
    month date NOT NULL,
    location_id integer NOT NULL,
    total_precipitation_last real,
    snowfall_last real
);
COMMENT ON TABLE era5.monthly_last_hour IS 'The last hour of each location and month, of totals: written by the load of the next month. To be read by the view weather_monthly';
COMMENT ON COLUMN era5.monthly_last_hour.month IS 'First day of the month that the hour belongs to, UTC';
COMMENT ON COLUMN era5.monthly_last_hour.location_id IS 'Number of the grid point, as in weather';
COMMENT ON COLUMN era5.monthly_last_hour.total_precipitation_last IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: value at 00:00 of the next month; mm';
COMMENT ON COLUMN era5.monthly_last_hour.snowfall_last IS 'Snow, water equivalent, accumulated over the hour that ends at the time: value at 00:00 of the next month; mm';
CREATE TABLE era5.monthly_summary (
    location_id integer NOT NULL,
    month date NOT NULL,
    wind_speed_10m_mean double precision,
    temperature_2m_mean double precision,
    zonal_wind_10m_mean double precision,
    meridional_wind_10m_mean double precision,
    total_cloud_cover_mean double precision,
    total_precipitation_mean double precision,
    snowfall_mean double precision,
    total_precipitation_sum double precision,
    snowfall_sum double precision,
    temperature_2m_min real,
    zonal_wind_10m_min real,
    meridional_wind_10m_min real,
    total_cloud_cover_min real,
    total_precipitation_min real,
    snowfall_min real,
    temperature_2m_max real,
    zonal_wind_10m_max real,
    meridional_wind_10m_max real,
    total_cloud_cover_max real,
    total_precipitation_max real,
    snowfall_max real,
    temperature_2m_hours smallint,
    zonal_wind_10m_hours smallint,
    meridional_wind_10m_hours smallint,
    total_cloud_cover_hours smallint,
    total_precipitation_hours smallint,
    snowfall_hours smallint,
    total_precipitation_sum_hours smallint,
    snowfall_sum_hours smallint
)
PARTITION BY RANGE (month);
COMMENT ON TABLE era5.monthly_summary IS 'Summaries of each location and month, written with the hours by each load. To be read by the view weather_monthly';
COMMENT ON COLUMN era5.monthly_summary.location_id IS 'Number of the grid point, as in weather';
COMMENT ON COLUMN era5.monthly_summary.month IS 'First day of the month, UTC';
COMMENT ON COLUMN era5.monthly_summary.wind_speed_10m_mean IS 'Mean of the hourly wind speed 10 m above the surface, over the hours that have both components; m/s';
COMMENT ON COLUMN era5.monthly_summary.temperature_2m_mean IS 'Air temperature 2 m above the surface: mean of the month''s hours; degC';
COMMENT ON COLUMN era5.monthly_summary.zonal_wind_10m_mean IS 'Eastward wind 10 m above the surface: mean of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary.meridional_wind_10m_mean IS 'Northward wind 10 m above the surface: mean of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary.total_cloud_cover_mean IS 'Part of the grid box covered by cloud, 0 to 1: mean of the month''s hours; fraction';
COMMENT ON COLUMN era5.monthly_summary.total_precipitation_mean IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: mean of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary.snowfall_mean IS 'Snow, water equivalent, accumulated over the hour that ends at the time: mean of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary.total_precipitation_sum IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: sum of the hours from 01:00 on the 1st to 23:00 on the last day; mm';
COMMENT ON COLUMN era5.monthly_summary.snowfall_sum IS 'Snow, water equivalent, accumulated over the hour that ends at the time: sum of the hours from 01:00 on the 1st to 23:00 on the last day; mm';
COMMENT ON COLUMN era5.monthly_summary.temperature_2m_min IS 'Air temperature 2 m above the surface: least value of the month''s hours; degC';
COMMENT ON COLUMN era5.monthly_summary.zonal_wind_10m_min IS 'Eastward wind 10 m above the surface: least value of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary.meridional_wind_10m_min IS 'Northward wind 10 m above the surface: least value of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary.total_cloud_cover_min IS 'Part of the grid box covered by cloud, 0 to 1: least value of the month''s hours; fraction';
COMMENT ON COLUMN era5.monthly_summary.total_precipitation_min IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: least value of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary.snowfall_min IS 'Snow, water equivalent, accumulated over the hour that ends at the time: least value of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary.temperature_2m_max IS 'Air temperature 2 m above the surface: greatest value of the month''s hours; degC';
COMMENT ON COLUMN era5.monthly_summary.zonal_wind_10m_max IS 'Eastward wind 10 m above the surface: greatest value of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary.meridional_wind_10m_max IS 'Northward wind 10 m above the surface: greatest value of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary.total_cloud_cover_max IS 'Part of the grid box covered by cloud, 0 to 1: greatest value of the month''s hours; fraction';
COMMENT ON COLUMN era5.monthly_summary.total_precipitation_max IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: greatest value of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary.snowfall_max IS 'Snow, water equivalent, accumulated over the hour that ends at the time: greatest value of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary.temperature_2m_hours IS 'Air temperature 2 m above the surface: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary.zonal_wind_10m_hours IS 'Eastward wind 10 m above the surface: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary.meridional_wind_10m_hours IS 'Northward wind 10 m above the surface: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary.total_cloud_cover_hours IS 'Part of the grid box covered by cloud, 0 to 1: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary.total_precipitation_hours IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary.snowfall_hours IS 'Snow, water equivalent, accumulated over the hour that ends at the time: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary.total_precipitation_sum_hours IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: number of hours in that sum';
COMMENT ON COLUMN era5.monthly_summary.snowfall_sum_hours IS 'Snow, water equivalent, accumulated over the hour that ends at the time: number of hours in that sum';
CREATE TABLE era5.monthly_summary_2023 (
    location_id integer CONSTRAINT monthly_summary_location_id_not_null NOT NULL,
    month date CONSTRAINT monthly_summary_month_not_null NOT NULL,
    wind_speed_10m_mean double precision,
    temperature_2m_mean double precision,
    zonal_wind_10m_mean double precision,
    meridional_wind_10m_mean double precision,
    total_cloud_cover_mean double precision,
    total_precipitation_mean double precision,
    snowfall_mean double precision,
    total_precipitation_sum double precision,
    snowfall_sum double precision,
    temperature_2m_min real,
    zonal_wind_10m_min real,
    meridional_wind_10m_min real,
    total_cloud_cover_min real,
    total_precipitation_min real,
    snowfall_min real,
    temperature_2m_max real,
    zonal_wind_10m_max real,
    meridional_wind_10m_max real,
    total_cloud_cover_max real,
    total_precipitation_max real,
    snowfall_max real,
    temperature_2m_hours smallint,
    zonal_wind_10m_hours smallint,
    meridional_wind_10m_hours smallint,
    total_cloud_cover_hours smallint,
    total_precipitation_hours smallint,
    snowfall_hours smallint,
    total_precipitation_sum_hours smallint,
    snowfall_sum_hours smallint
);
COMMENT ON TABLE era5.monthly_summary_2023 IS 'A year of era5.monthly_summary';
COMMENT ON COLUMN era5.monthly_summary_2023.location_id IS 'Number of the grid point, as in weather';
COMMENT ON COLUMN era5.monthly_summary_2023.month IS 'First day of the month, UTC';
COMMENT ON COLUMN era5.monthly_summary_2023.wind_speed_10m_mean IS 'Mean of the hourly wind speed 10 m above the surface, over the hours that have both components; m/s';
COMMENT ON COLUMN era5.monthly_summary_2023.temperature_2m_mean IS 'Air temperature 2 m above the surface: mean of the month''s hours; degC';
COMMENT ON COLUMN era5.monthly_summary_2023.zonal_wind_10m_mean IS 'Eastward wind 10 m above the surface: mean of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary_2023.meridional_wind_10m_mean IS 'Northward wind 10 m above the surface: mean of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary_2023.total_cloud_cover_mean IS 'Part of the grid box covered by cloud, 0 to 1: mean of the month''s hours; fraction';
COMMENT ON COLUMN era5.monthly_summary_2023.total_precipitation_mean IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: mean of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary_2023.snowfall_mean IS 'Snow, water equivalent, accumulated over the hour that ends at the time: mean of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary_2023.total_precipitation_sum IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: sum of the hours from 01:00 on the 1st to 23:00 on the last day; mm';
COMMENT ON COLUMN era5.monthly_summary_2023.snowfall_sum IS 'Snow, water equivalent, accumulated over the hour that ends at the time: sum of the hours from 01:00 on the 1st to 23:00 on the last day; mm';
COMMENT ON COLUMN era5.monthly_summary_2023.temperature_2m_min IS 'Air temperature 2 m above the surface: least value of the month''s hours; degC';
COMMENT ON COLUMN era5.monthly_summary_2023.zonal_wind_10m_min IS 'Eastward wind 10 m above the surface: least value of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary_2023.meridional_wind_10m_min IS 'Northward wind 10 m above the surface: least value of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary_2023.total_cloud_cover_min IS 'Part of the grid box covered by cloud, 0 to 1: least value of the month''s hours; fraction';
COMMENT ON COLUMN era5.monthly_summary_2023.total_precipitation_min IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: least value of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary_2023.snowfall_min IS 'Snow, water equivalent, accumulated over the hour that ends at the time: least value of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary_2023.temperature_2m_max IS 'Air temperature 2 m above the surface: greatest value of the month''s hours; degC';
COMMENT ON COLUMN era5.monthly_summary_2023.zonal_wind_10m_max IS 'Eastward wind 10 m above the surface: greatest value of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary_2023.meridional_wind_10m_max IS 'Northward wind 10 m above the surface: greatest value of the month''s hours; m/s';
COMMENT ON COLUMN era5.monthly_summary_2023.total_cloud_cover_max IS 'Part of the grid box covered by cloud, 0 to 1: greatest value of the month''s hours; fraction';
COMMENT ON COLUMN era5.monthly_summary_2023.total_precipitation_max IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: greatest value of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary_2023.snowfall_max IS 'Snow, water equivalent, accumulated over the hour that ends at the time: greatest value of the month''s hours; mm';
COMMENT ON COLUMN era5.monthly_summary_2023.temperature_2m_hours IS 'Air temperature 2 m above the surface: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary_2023.zonal_wind_10m_hours IS 'Eastward wind 10 m above the surface: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary_2023.meridional_wind_10m_hours IS 'Northward wind 10 m above the surface: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary_2023.total_cloud_cover_hours IS 'Part of the grid box covered by cloud, 0 to 1: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary_2023.total_precipitation_hours IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary_2023.snowfall_hours IS 'Snow, water equivalent, accumulated over the hour that ends at the time: number of the month''s hours that have a value';
COMMENT ON COLUMN era5.monthly_summary_2023.total_precipitation_sum_hours IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time: number of hours in that sum';
COMMENT ON COLUMN era5.monthly_summary_2023.snowfall_sum_hours IS 'Snow, water equivalent, accumulated over the hour that ends at the time: number of hours in that sum';
CREATE TABLE public.weather (
    "time" timestamp with time zone NOT NULL,
    location_id integer,
    latitude real,
    longitude real,
    temperature_2m real,
    zonal_wind_10m real,
    meridional_wind_10m real,
    total_cloud_cover real,
    total_precipitation real,
    snowfall real
)
PARTITION BY RANGE ("time");
COMMENT ON TABLE public.weather IS 'ERA5, hourly, on its grid of 0.25 degrees: one row for each location and hour. Times are UTC. NULL: the files lack the value';
COMMENT ON COLUMN public.weather."time" IS 'Valid time, on the hour, to be written with its zone: ''2023-07-01 12:00Z''. Values are of that instant; totals are of the hour that ends then';
COMMENT ON COLUMN public.weather.location_id IS 'Number of the grid point, 1 to 1038240: ((latitude + 90) * 4)::int * 1440 + ((longitude + 179.75) * 4)::int + 1, or era5.at(latitude, longitude)';
COMMENT ON COLUMN public.weather.latitude IS 'Degrees north, -90 to 90, a multiple of 0.25. To find a place, location_id is faster';
COMMENT ON COLUMN public.weather.longitude IS 'Degrees east, -179.75 to 180, a multiple of 0.25. To find a place, location_id is faster';
COMMENT ON COLUMN public.weather.temperature_2m IS 'Air temperature 2 m above the surface, at that instant; degC. ERA5: t2m';
COMMENT ON COLUMN public.weather.zonal_wind_10m IS 'Eastward wind 10 m above the surface, at that instant; m/s. ERA5: u10';
COMMENT ON COLUMN public.weather.meridional_wind_10m IS 'Northward wind 10 m above the surface, at that instant; m/s. ERA5: v10';
COMMENT ON COLUMN public.weather.total_cloud_cover IS 'Part of the grid box covered by cloud, 0 to 1, at that instant; fraction. ERA5: tcc';
COMMENT ON COLUMN public.weather.total_precipitation IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time; mm. ERA5: tp';
COMMENT ON COLUMN public.weather.snowfall IS 'Snow, water equivalent, accumulated over the hour that ends at the time; mm. ERA5: sf';
CREATE TABLE public.weather_2023_01 (
    "time" timestamp with time zone CONSTRAINT weather_time_not_null NOT NULL,
    location_id integer,
    latitude real,
    longitude real,
    temperature_2m real,
    zonal_wind_10m real,
    meridional_wind_10m real,
    total_cloud_cover real,
    total_precipitation real,
    snowfall real
);
COMMENT ON COLUMN public.weather_2023_01."time" IS 'Valid time, on the hour, to be written with its zone: ''2023-07-01 12:00Z''. Values are of that instant; totals are of the hour that ends then';
COMMENT ON COLUMN public.weather_2023_01.location_id IS 'Number of the grid point, 1 to 1038240: ((latitude + 90) * 4)::int * 1440 + ((longitude + 179.75) * 4)::int + 1, or era5.at(latitude, longitude)';
COMMENT ON COLUMN public.weather_2023_01.latitude IS 'Degrees north, -90 to 90, a multiple of 0.25. To find a place, location_id is faster';
COMMENT ON COLUMN public.weather_2023_01.longitude IS 'Degrees east, -179.75 to 180, a multiple of 0.25. To find a place, location_id is faster';
COMMENT ON COLUMN public.weather_2023_01.temperature_2m IS 'Air temperature 2 m above the surface, at that instant; degC. ERA5: t2m';
COMMENT ON COLUMN public.weather_2023_01.zonal_wind_10m IS 'Eastward wind 10 m above the surface, at that instant; m/s. ERA5: u10';
COMMENT ON COLUMN public.weather_2023_01.meridional_wind_10m IS 'Northward wind 10 m above the surface, at that instant; m/s. ERA5: v10';
COMMENT ON COLUMN public.weather_2023_01.total_cloud_cover IS 'Part of the grid box covered by cloud, 0 to 1, at that instant; fraction. ERA5: tcc';
COMMENT ON COLUMN public.weather_2023_01.total_precipitation IS 'Rain and snow, water equivalent, accumulated over the hour that ends at the time; mm. ERA5: tp';
COMMENT ON COLUMN public.weather_2023_01.snowfall IS 'Snow, water equivalent, accumulated over the hour that ends at the time; mm. ERA5: sf';
ALTER TABLE ONLY era5.monthly_summary ATTACH PARTITION era5.monthly_summary_2023 FOR VALUES FROM ('2023-01-01') TO ('2024-01-01');
ALTER TABLE ONLY public.weather ATTACH PARTITION public.weather_2023_01 FOR VALUES FROM ('2023-01-01 00:00:00+00') TO ('2023-02-01 00:00:00+00');
INSERT INTO era5.ledger VALUES
	('2023-01-01', 1, 'loaded', 744, 1, '{[484984,484985)}', false, 744, 744, '{}', 'sample', '-6/106/-6/106', '{"temperature_2m": {"0001": 744}, "total_precipitation": {"0001": 744}}', '[{"mean": 30.194013718635805, "hours": 744, "column": "temperature_2m", "digest": "8e446cdf2c30b4c4", "expver": {"0001": 744}, "values": 744, "maximum": 34.45293426513672, "minimum": 25.0788516998291, "missing": 0, "checksum": 23555574288, "area_mean": 30.1940137, "locations": 1, "first_missing": null, "missing_hours": [], "out_of_bounds": 0, "preliminary_hours": [], "first_out_of_bounds": null}, {"mean": 0.12608618565529717, "hours": 744, "column": "total_precipitation", "digest": "47f6d0a8bd74d73f", "expver": {"0001": 744}, "values": 744, "maximum": 4.055976867675781, "minimum": 0.0, "missing": 0, "checksum": 98364860, "area_mean": 0.126086186, "locations": 1, "first_missing": null, "missing_hours": [], "out_of_bounds": 0, "preliminary_hours": [], "first_out_of_bounds": null}]', '[{"path": "/data/era5/raw/sample/2023-01-38e34298bd4d.zip", "bytes": 152262, "sha256": "3c4300bcb7599aaa3a2fe360a4c1083bfac86c2c05f09dd6ff314793b7831af4"}]', '{}', 152262, 9404, '{"path": "/data/era5/flat/2023-01-10cee93352ef.parquet", "bytes": 9404, "sha256": "5653eba1a17432b44175c6422d02b999ed986b1d8629b6b4ae24a655950109fb"}', '{"raw": 1.1476276440007496, "flat": 0.40314413599844556, "load": 0.3040490370003681}', '{"dask": "2026.8.0", "pgpq": "0.12.0", "numpy": "2.4.6", "server": "PostgreSQL 18.4", "xarray": "2026.9.0", "netCDF4": "1.7.5.1.post1", "psycopg": "3.3.9", "pyarrow": "26.0.1", "era5-pipeline": "0.1.0"}', '68e9b20dcf69400647d2c67c55fd2c98b22c78d50bf1be9458e1ca6e6eed6298', '2026-11-23 06:21:19.638473+00', '{}', 'final', '2026-11-23 06:21:19.638473+00', NULL, NULL, NULL, true, '[]');
INSERT INTO era5.load_attempt OVERRIDING SYSTEM VALUE VALUES
	(1, '2023-01-01', '2026-11-23 06:21:19.469657+00', '2026-11-23 06:21:19.808993+00', 'loaded', NULL, 744, 14433, '2026-11-23 06:21:18.577242+00');
INSERT INTO era5.monthly_last_hour VALUES
	('2022-12-01', 484984, 0.034336, NULL);
INSERT INTO era5.monthly_summary_2023 VALUES
	(484984, '2023-01-01', NULL, 30.194013718635805, NULL, NULL, NULL, 0.12608618565529717, NULL, 93.77378612686016, NULL, 25.078852, NULL, NULL, NULL, 0, NULL, 34.452934, NULL, NULL, NULL, 4.055977, NULL, 744, NULL, NULL, NULL, 744, NULL, 743, NULL);
INSERT INTO public.weather_2023_01 VALUES
	('2023-01-01 00:00:00+00', 484984, -6, 106, 29.321253, NULL, NULL, NULL, 0.034336, NULL),
	('2023-01-01 01:00:00+00', 484984, -6, 106, 29.657862, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 02:00:00+00', 484984, -6, 106, 30.164698, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 03:00:00+00', 484984, -6, 106, 30.88476, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 04:00:00+00', 484984, -6, 106, 31.6589, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 05:00:00+00', 484984, -6, 106, 32.36828, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 06:00:00+00', 484984, -6, 106, 32.95394, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 07:00:00+00', 484984, -6, 106, 33.382835, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 08:00:00+00', 484984, -6, 106, 33.607384, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 09:00:00+00', 484984, -6, 106, 33.564262, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 10:00:00+00', 484984, -6, 106, 33.214317, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 11:00:00+00', 484984, -6, 106, 32.583794, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 12:00:00+00', 484984, -6, 106, 31.761072, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 13:00:00+00', 484984, -6, 106, 30.843988, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 14:00:00+00', 484984, -6, 106, 29.881739, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 15:00:00+00', 484984, -6, 106, 28.865412, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 16:00:00+00', 484984, -6, 106, 27.783747, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 17:00:00+00', 484984, -6, 106, 26.701014, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 18:00:00+00', 484984, -6, 106, 25.786951, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 19:00:00+00', 484984, -6, 106, 25.260279, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 20:00:00+00', 484984, -6, 106, 25.274256, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 21:00:00+00', 484984, -6, 106, 25.823206, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 22:00:00+00', 484984, -6, 106, 26.739069, NULL, NULL, NULL, 0, NULL),
	('2023-01-01 23:00:00+00', 484984, -6, 106, 27.783075, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 00:00:00+00', 484984, -6, 106, 28.769281, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 01:00:00+00', 484984, -6, 106, 29.636072, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 02:00:00+00', 484984, -6, 106, 30.42544, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 03:00:00+00', 484984, -6, 106, 31.199457, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 04:00:00+00', 484984, -6, 106, 31.96496, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 05:00:00+00', 484984, -6, 106, 32.66079, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 06:00:00+00', 484984, -6, 106, 33.20446, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 07:00:00+00', 484984, -6, 106, 33.548058, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 08:00:00+00', 484984, -6, 106, 33.692986, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 09:00:00+00', 484984, -6, 106, 33.656303, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 10:00:00+00', 484984, -6, 106, 33.42733, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 11:00:00+00', 484984, -6, 106, 32.961388, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 12:00:00+00', 484984, -6, 106, 32.2221, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 13:00:00+00', 484984, -6, 106, 31.237177, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 14:00:00+00', 484984, -6, 106, 30.117426, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 15:00:00+00', 484984, -6, 106, 29.017908, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 16:00:00+00', 484984, -6, 106, 28.068323, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 17:00:00+00', 484984, -6, 106, 27.326502, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 18:00:00+00', 484984, -6, 106, 26.78869, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 19:00:00+00', 484984, -6, 106, 26.44369, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 20:00:00+00', 484984, -6, 106, 26.320215, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 21:00:00+00', 484984, -6, 106, 26.484766, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 22:00:00+00', 484984, -6, 106, 26.988062, NULL, NULL, NULL, 0, NULL),
	('2023-01-02 23:00:00+00', 484984, -6, 106, 27.80279, NULL, NULL, NULL, 0, NULL),
	('2023-01-03 00:00:00+00', 484984, -6, 106, 28.803156, NULL, NULL, NULL, 0, NULL),
	('2023-01-03 01:00:00+00', 484984, -6, 106, 29.804804, NULL, NULL, NULL, 0, NULL),
	('2023-01-03 02:00:00+00', 484984, -6, 106, 30.639124, NULL, NULL, NULL, 0, NULL),
	('2023-01-03 03:00:00+00', 484984, -6, 106, 31.213709, NULL, NULL, NULL, 0, NULL),
	('2023-01-03 04:00:00+00', 484984, -6, 106, 31.698725, NULL, NULL, NULL, 0.030875206, NULL),
	('2023-01-03 05:00:00+00', 484984, -6, 106, 32.11669, NULL, NULL, NULL, 0.24224073, NULL),
	('2023-01-03 06:00:00+00', 484984, -6, 106, 32.421104, NULL, NULL, NULL, 0.5310327, NULL),
	('2023-01-03 07:00:00+00', 484984, -6, 106, 32.59527, NULL, NULL, NULL, 0.7894635, NULL),
	('2023-01-03 08:00:00+00', 484984, -6, 106, 32.6296, NULL, NULL, NULL, 0.9467453, NULL),
	('2023-01-03 09:00:00+00', 484984, -6, 106, 32.52175, NULL, NULL, NULL, 0.9557307, NULL),
	('2023-01-03 10:00:00+00', 484984, -6, 106, 32.277428, NULL, NULL, NULL, 0.80281496, NULL),
	('2023-01-03 11:00:00+00', 484984, -6, 106, 31.912073, NULL, NULL, NULL, 0.53308904, NULL),
	('2023-01-03 12:00:00+00', 484984, -6, 106, 31.451319, NULL, NULL, NULL, 0.24976581, NULL),
	('2023-01-03 13:00:00+00', 484984, -6, 106, 30.929682, NULL, NULL, NULL, 0.05995948, NULL),
	('2023-01-03 14:00:00+00', 484984, -6, 106, 30.387018, NULL, NULL, NULL, 0.00031937088, NULL),
	('2023-01-03 15:00:00+00', 484984, -6, 106, 29.863611, NULL, NULL, NULL, 0, NULL),
	('2023-01-03 16:00:00+00', 484984, -6, 106, 29.376429, NULL, NULL, NULL, 0, NULL),
	('2023-01-03 17:00:00+00', 484984, -6, 106, 29.00982, NULL, NULL, NULL, 0, NULL),
	('2023-01-03 18:00:00+00', 484984, -6, 106, 28.726496, NULL, NULL, NULL, 0.0005689071, NULL),
	('2023-01-03 19:00:00+00', 484984, -6, 106, 28.55691, NULL, NULL, NULL, 0.035656616, NULL),
	('2023-01-03 20:00:00+00', 484984, -6, 106, 28.507196, NULL, NULL, NULL, 0.11262484, NULL),
	('2023-01-03 21:00:00+00', 484984, -6, 106, 28.579432, NULL, NULL, NULL, 0.18885359, NULL),
	('2023-01-03 22:00:00+00', 484984, -6, 106, 28.771448, NULL, NULL, NULL, 0.22942945, NULL),
	('2023-01-03 23:00:00+00', 484984, -6, 106, 29.075037, NULL, NULL, NULL, 0.23055449, NULL),
	('2023-01-04 00:00:00+00', 484984, -6, 106, 29.473688, NULL, NULL, NULL, 0.20742416, NULL),
	('2023-01-04 01:00:00+00', 484984, -6, 106, 29.941278, NULL, NULL, NULL, 0.17307326, NULL),
	('2023-01-04 02:00:00+00', 484984, -6, 106, 30.443384, NULL, NULL, NULL, 0.13073161, NULL),
	('2023-01-04 03:00:00+00', 484984, -6, 106, 30.940912, NULL, NULL, NULL, 0.08091889, NULL),
	('2023-01-04 04:00:00+00', 484984, -6, 106, 31.395502, NULL, NULL, NULL, 0.032742508, NULL),
	('2023-01-04 05:00:00+00', 484984, -6, 106, 31.77456, NULL, NULL, NULL, 0.0038464786, NULL),
	('2023-01-04 06:00:00+00', 484984, -6, 106, 32.054314, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 07:00:00+00', 484984, -6, 106, 32.220207, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 08:00:00+00', 484984, -6, 106, 32.26467, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 09:00:00+00', 484984, -6, 106, 32.18438, NULL, NULL, NULL, 0.0015224505, NULL),
	('2023-01-04 10:00:00+00', 484984, -6, 106, 31.978937, NULL, NULL, NULL, 0.03784336, NULL),
	('2023-01-04 11:00:00+00', 484984, -6, 106, 31.651697, NULL, NULL, NULL, 0.10684691, NULL),
	('2023-01-04 12:00:00+00', 484984, -6, 106, 31.21316, NULL, NULL, NULL, 0.12652948, NULL),
	('2023-01-04 13:00:00+00', 484984, -6, 106, 30.684778, NULL, NULL, NULL, 0.04816428, NULL),
	('2023-01-04 14:00:00+00', 484984, -6, 106, 30.101343, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 15:00:00+00', 484984, -6, 106, 29.386744, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 16:00:00+00', 484984, -6, 106, 28.447046, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 17:00:00+00', 484984, -6, 106, 27.42019, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 18:00:00+00', 484984, -6, 106, 26.527185, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 19:00:00+00', 484984, -6, 106, 25.96676, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 20:00:00+00', 484984, -6, 106, 25.827936, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 21:00:00+00', 484984, -6, 106, 26.075953, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 22:00:00+00', 484984, -6, 106, 26.60946, NULL, NULL, NULL, 0, NULL),
	('2023-01-04 23:00:00+00', 484984, -6, 106, 27.334894, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 00:00:00+00', 484984, -6, 106, 28.199213, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 01:00:00+00', 484984, -6, 106, 29.166773, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 02:00:00+00', 484984, -6, 106, 30.176386, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 03:00:00+00', 484984, -6, 106, 31.130274, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 04:00:00+00', 484984, -6, 106, 31.932734, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 05:00:00+00', 484984, -6, 106, 32.545525, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 06:00:00+00', 484984, -6, 106, 33.00506, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 07:00:00+00', 484984, -6, 106, 33.376244, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 08:00:00+00', 484984, -6, 106, 33.674644, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 09:00:00+00', 484984, -6, 106, 33.822533, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 10:00:00+00', 484984, -6, 106, 33.684013, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 11:00:00+00', 484984, -6, 106, 33.162407, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 12:00:00+00', 484984, -6, 106, 32.28936, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 13:00:00+00', 484984, -6, 106, 31.235743, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 14:00:00+00', 484984, -6, 106, 30.231073, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 15:00:00+00', 484984, -6, 106, 29.44668, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 16:00:00+00', 484984, -6, 106, 28.924372, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 17:00:00+00', 484984, -6, 106, 28.596003, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 18:00:00+00', 484984, -6, 106, 28.369257, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 19:00:00+00', 484984, -6, 106, 28.209497, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 20:00:00+00', 484984, -6, 106, 28.156885, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 21:00:00+00', 484984, -6, 106, 28.27682, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 22:00:00+00', 484984, -6, 106, 28.59289, NULL, NULL, NULL, 0, NULL),
	('2023-01-05 23:00:00+00', 484984, -6, 106, 29.060541, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 00:00:00+00', 484984, -6, 106, 29.59826, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 01:00:00+00', 484984, -6, 106, 30.13357, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 02:00:00+00', 484984, -6, 106, 30.669855, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 03:00:00+00', 484984, -6, 106, 31.193964, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 04:00:00+00', 484984, -6, 106, 31.675806, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 05:00:00+00', 484984, -6, 106, 32.089775, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 06:00:00+00', 484984, -6, 106, 32.412224, NULL, NULL, NULL, 0.022779685, NULL),
	('2023-01-06 07:00:00+00', 484984, -6, 106, 32.6202, NULL, NULL, NULL, 0.15330687, NULL),
	('2023-01-06 08:00:00+00', 484984, -6, 106, 32.692467, NULL, NULL, NULL, 0.4312992, NULL),
	('2023-01-06 09:00:00+00', 484984, -6, 106, 32.61358, NULL, NULL, NULL, 0.744611, NULL),
	('2023-01-06 10:00:00+00', 484984, -6, 106, 32.37887, NULL, NULL, NULL, 0.86063147, NULL),
	('2023-01-06 11:00:00+00', 484984, -6, 106, 31.998835, NULL, NULL, NULL, 0.6404221, NULL),
	('2023-01-06 12:00:00+00', 484984, -6, 106, 31.50033, NULL, NULL, NULL, 0.23013353, NULL),
	('2023-01-06 13:00:00+00', 484984, -6, 106, 30.923944, NULL, NULL, NULL, 0.00021805317, NULL),
	('2023-01-06 14:00:00+00', 484984, -6, 106, 30.310968, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 15:00:00+00', 484984, -6, 106, 29.472193, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 16:00:00+00', 484984, -6, 106, 28.48678, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 17:00:00+00', 484984, -6, 106, 27.523829, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 18:00:00+00', 484984, -6, 106, 26.735376, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 19:00:00+00', 484984, -6, 106, 26.221674, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 20:00:00+00', 484984, -6, 106, 26.034662, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 21:00:00+00', 484984, -6, 106, 26.194117, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 22:00:00+00', 484984, -6, 106, 26.690332, NULL, NULL, NULL, 0, NULL),
	('2023-01-06 23:00:00+00', 484984, -6, 106, 27.470667, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 00:00:00+00', 484984, -6, 106, 28.43197, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 01:00:00+00', 484984, -6, 106, 29.439783, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 02:00:00+00', 484984, -6, 106, 30.371485, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 03:00:00+00', 484984, -6, 106, 31.156305, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 04:00:00+00', 484984, -6, 106, 31.783716, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 05:00:00+00', 484984, -6, 106, 32.276054, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 06:00:00+00', 484984, -6, 106, 32.649315, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 07:00:00+00', 484984, -6, 106, 32.89324, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 08:00:00+00', 484984, -6, 106, 32.981773, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 09:00:00+00', 484984, -6, 106, 32.898186, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 10:00:00+00', 484984, -6, 106, 32.6473, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 11:00:00+00', 484984, -6, 106, 32.24465, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 12:00:00+00', 484984, -6, 106, 31.696772, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 13:00:00+00', 484984, -6, 106, 30.9992, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 14:00:00+00', 484984, -6, 106, 30.161646, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 15:00:00+00', 484984, -6, 106, 29.24206, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 16:00:00+00', 484984, -6, 106, 28.35589, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 17:00:00+00', 484984, -6, 106, 27.644281, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 18:00:00+00', 484984, -6, 106, 27.216608, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 19:00:00+00', 484984, -6, 106, 27.106806, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 20:00:00+00', 484984, -6, 106, 27.273218, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 21:00:00+00', 484984, -6, 106, 27.63769, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 22:00:00+00', 484984, -6, 106, 28.129969, NULL, NULL, NULL, 0, NULL),
	('2023-01-07 23:00:00+00', 484984, -6, 106, 28.703577, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 00:00:00+00', 484984, -6, 106, 29.319056, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 01:00:00+00', 484984, -6, 106, 29.919336, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 02:00:00+00', 484984, -6, 106, 30.44961, NULL, NULL, NULL, 0.009456417, NULL),
	('2023-01-08 03:00:00+00', 484984, -6, 106, 30.9768, NULL, NULL, NULL, 0.09392016, NULL),
	('2023-01-08 04:00:00+00', 484984, -6, 106, 31.458704, NULL, NULL, NULL, 0.19997358, NULL),
	('2023-01-08 05:00:00+00', 484984, -6, 106, 31.856684, NULL, NULL, NULL, 0.22589788, NULL),
	('2023-01-08 06:00:00+00', 484984, -6, 106, 32.141747, NULL, NULL, NULL, 0.13966113, NULL),
	('2023-01-08 07:00:00+00', 484984, -6, 106, 32.298485, NULL, NULL, NULL, 0.02732221, NULL),
	('2023-01-08 08:00:00+00', 484984, -6, 106, 32.324974, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 09:00:00+00', 484984, -6, 106, 32.41497, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 10:00:00+00', 484984, -6, 106, 32.32418, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 11:00:00+00', 484984, -6, 106, 31.999353, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 12:00:00+00', 484984, -6, 106, 31.516687, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 13:00:00+00', 484984, -6, 106, 30.964716, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 14:00:00+00', 484984, -6, 106, 30.377527, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 15:00:00+00', 484984, -6, 106, 29.722162, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 16:00:00+00', 484984, -6, 106, 28.952082, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 17:00:00+00', 484984, -6, 106, 28.082392, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 18:00:00+00', 484984, -6, 106, 27.224024, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 19:00:00+00', 484984, -6, 106, 26.54687, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 20:00:00+00', 484984, -6, 106, 26.199091, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 21:00:00+00', 484984, -6, 106, 26.24328, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 22:00:00+00', 484984, -6, 106, 26.652063, NULL, NULL, NULL, 0, NULL),
	('2023-01-08 23:00:00+00', 484984, -6, 106, 27.352808, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 00:00:00+00', 484984, -6, 106, 28.271235, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 01:00:00+00', 484984, -6, 106, 29.331964, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 02:00:00+00', 484984, -6, 106, 30.421473, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 03:00:00+00', 484984, -6, 106, 31.364435, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 04:00:00+00', 484984, -6, 106, 31.961237, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 05:00:00+00', 484984, -6, 106, 32.083305, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 06:00:00+00', 484984, -6, 106, 32.425133, NULL, NULL, NULL, 0.3271401, NULL),
	('2023-01-09 07:00:00+00', 484984, -6, 106, 32.688255, NULL, NULL, NULL, 1.6746819, NULL),
	('2023-01-09 08:00:00+00', 484984, -6, 106, 32.779106, NULL, NULL, NULL, 3.2638311, NULL),
	('2023-01-09 09:00:00+00', 484984, -6, 106, 32.6838, NULL, NULL, NULL, 4.055977, NULL),
	('2023-01-09 10:00:00+00', 484984, -6, 106, 32.411186, NULL, NULL, NULL, 3.5836697, NULL),
	('2023-01-09 11:00:00+00', 484984, -6, 106, 31.991755, NULL, NULL, NULL, 2.2432804, NULL),
	('2023-01-09 12:00:00+00', 484984, -6, 106, 31.471094, NULL, NULL, NULL, 0.8774847, NULL),
	('2023-01-09 13:00:00+00', 484984, -6, 106, 30.900629, NULL, NULL, NULL, 0.11213869, NULL),
	('2023-01-09 14:00:00+00', 484984, -6, 106, 30.32693, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 15:00:00+00', 484984, -6, 106, 29.649042, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 16:00:00+00', 484984, -6, 106, 28.887995, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 17:00:00+00', 484984, -6, 106, 28.172419, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 18:00:00+00', 484984, -6, 106, 27.59286, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 19:00:00+00', 484984, -6, 106, 27.21792, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 20:00:00+00', 484984, -6, 106, 27.108881, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 21:00:00+00', 484984, -6, 106, 27.303186, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 22:00:00+00', 484984, -6, 106, 27.777674, NULL, NULL, NULL, 0, NULL),
	('2023-01-09 23:00:00+00', 484984, -6, 106, 28.433832, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 00:00:00+00', 484984, -6, 106, 29.134516, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 01:00:00+00', 484984, -6, 106, 29.77749, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 02:00:00+00', 484984, -6, 106, 30.351862, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 03:00:00+00', 484984, -6, 106, 30.92953, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 04:00:00+00', 484984, -6, 106, 31.590418, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 05:00:00+00', 484984, -6, 106, 32.334312, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 06:00:00+00', 484984, -6, 106, 33.046562, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 07:00:00+00', 484984, -6, 106, 33.546867, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 08:00:00+00', 484984, -6, 106, 33.689293, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 09:00:00+00', 484984, -6, 106, 33.444817, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 10:00:00+00', 484984, -6, 106, 32.911522, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 11:00:00+00', 484984, -6, 106, 32.251274, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 12:00:00+00', 484984, -6, 106, 31.599909, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 13:00:00+00', 484984, -6, 106, 31.008905, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 14:00:00+00', 484984, -6, 106, 30.445826, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 15:00:00+00', 484984, -6, 106, 29.83816, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 16:00:00+00', 484984, -6, 106, 29.124414, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 17:00:00+00', 484984, -6, 106, 28.28634, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 18:00:00+00', 484984, -6, 106, 27.360926, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 19:00:00+00', 484984, -6, 106, 26.443598, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 20:00:00+00', 484984, -6, 106, 25.684778, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 21:00:00+00', 484984, -6, 106, 25.268793, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 22:00:00+00', 484984, -6, 106, 25.701715, NULL, NULL, NULL, 0, NULL),
	('2023-01-10 23:00:00+00', 484984, -6, 106, 26.514246, NULL, NULL, NULL, 0, NULL),
	('2023-01-11 00:00:00+00', 484984, -6, 106, 27.596643, NULL, NULL, NULL, 0, NULL),
	('2023-01-11 01:00:00+00', 484984, -6, 106, 28.8742, NULL, NULL, NULL, 0, NULL),
	('2023-01-11 02:00:00+00', 484984, -6, 106, 30.254725, NULL, NULL, NULL, 0, NULL),
	('2023-01-11 03:00:00+00', 484984, -6, 106, 31.481928, NULL, NULL, NULL, 0, NULL),
	('2023-01-11 04:00:00+00', 484984, -6, 106, 32.26232, NULL, NULL, NULL, 0, NULL),
	('2023-01-11 05:00:00+00', 484984, -6, 106, 32.5794, NULL, NULL, NULL, 0, NULL),
	('2023-01-11 06:00:00+00', 484984, -6, 106, 32.535088, NULL, NULL, NULL, 0, NULL),
	('2023-01-11 07:00:00+00', 484984, -6, 106, 32.430595, NULL, NULL, NULL, 1.8822561e-06, NULL),
	('2023-01-11 08:00:00+00', 484984, -6, 106, 32.496147, NULL, NULL, NULL, 0.12553483, NULL),
	('2023-01-11 09:00:00+00', 484984, -6, 106, 32.414146, NULL, NULL, NULL, 0.32339245, NULL),
	('2023-01-11 10:00:00+00', 484984, -6, 106, 32.194878, NULL, NULL, NULL, 0.42068958, NULL),
	('2023-01-11 11:00:00+00', 484984, -6, 106, 31.855555, NULL, NULL, NULL, 0.36513805, NULL),
	('2023-01-11 12:00:00+00', 484984, -6, 106, 31.420618, NULL, NULL, NULL, 0.20743534, NULL),
	('2023-01-11 13:00:00+00', 484984, -6, 106, 30.921778, NULL, NULL, NULL, 0.056525692, NULL),
	('2023-01-11 14:00:00+00', 484984, -6, 106, 30.397242, NULL, NULL, NULL, 2.695515e-05, NULL),
	('2023-01-11 15:00:00+00', 484984, -6, 106, 29.878687, NULL, NULL, NULL, 0, NULL),
	('2023-01-11 16:00:00+00', 484984, -6, 106, 29.38186, NULL, NULL, NULL, 0, NULL),
	('2023-01-11 17:00:00+00', 484984, -6, 106, 29.064661, NULL, NULL, NULL, 0, NULL),
	('2023-01-11 18:00:00+00', 484984, -6, 106, 28.828272, NULL, NULL, NULL, 0.0065319473, NULL),
	('2023-01-11 19:00:00+00', 484984, -6, 106, 28.700647, NULL, NULL, NULL, 0.17815083, NULL),
	('2023-01-11 20:00:00+00', 484984, -6, 106, 28.69024, NULL, NULL, NULL, 0.6188303, NULL),
	('2023-01-11 21:00:00+00', 484984, -6, 106, 28.785913, NULL, NULL, NULL, 1.1786819, NULL),
	('2023-01-11 22:00:00+00', 484984, -6, 106, 28.974298, NULL, NULL, NULL, 1.5651584, NULL),
	('2023-01-11 23:00:00+00', 484984, -6, 106, 29.243341, NULL, NULL, NULL, 1.5799701, NULL),
	('2023-01-12 00:00:00+00', 484984, -6, 106, 29.58291, NULL, NULL, NULL, 1.2646914, NULL),
	('2023-01-12 01:00:00+00', 484984, -6, 106, 29.982203, NULL, NULL, NULL, 0.82570314, NULL),
	('2023-01-12 02:00:00+00', 484984, -6, 106, 30.425287, NULL, NULL, NULL, 0.45151263, NULL),
	('2023-01-12 03:00:00+00', 484984, -6, 106, 30.88775, NULL, NULL, NULL, 0.21048263, NULL),
	('2023-01-12 04:00:00+00', 484984, -6, 106, 31.336176, NULL, NULL, NULL, 0.078525394, NULL),
	('2023-01-12 05:00:00+00', 484984, -6, 106, 31.731806, NULL, NULL, NULL, 0.013526995, NULL),
	('2023-01-12 06:00:00+00', 484984, -6, 106, 32.037132, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 07:00:00+00', 484984, -6, 106, 32.376396, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 08:00:00+00', 484984, -6, 106, 32.7073, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 09:00:00+00', 484984, -6, 106, 32.871605, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 10:00:00+00', 484984, -6, 106, 32.78228, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 11:00:00+00', 484984, -6, 106, 32.411705, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 12:00:00+00', 484984, -6, 106, 31.818659, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 13:00:00+00', 484984, -6, 106, 31.115107, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 14:00:00+00', 484984, -6, 106, 30.393488, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 15:00:00+00', 484984, -6, 106, 29.671839, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 16:00:00+00', 484984, -6, 106, 28.904108, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 17:00:00+00', 484984, -6, 106, 28.05221, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 18:00:00+00', 484984, -6, 106, 27.16305, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 19:00:00+00', 484984, -6, 106, 26.38711, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 20:00:00+00', 484984, -6, 106, 25.917475, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 21:00:00+00', 484984, -6, 106, 25.891077, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 22:00:00+00', 484984, -6, 106, 26.322657, NULL, NULL, NULL, 0, NULL),
	('2023-01-12 23:00:00+00', 484984, -6, 106, 27.115076, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 00:00:00+00', 484984, -6, 106, 28.129572, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 01:00:00+00', 484984, -6, 106, 29.255304, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 02:00:00+00', 484984, -6, 106, 30.42489, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 03:00:00+00', 484984, -6, 106, 31.57464, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 04:00:00+00', 484984, -6, 106, 32.59771, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 05:00:00+00', 484984, -6, 106, 33.346, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 06:00:00+00', 484984, -6, 106, 33.69268, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 07:00:00+00', 484984, -6, 106, 33.61123, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 08:00:00+00', 484984, -6, 106, 33.206474, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 09:00:00+00', 484984, -6, 106, 32.66546, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 10:00:00+00', 484984, -6, 106, 32.336876, NULL, NULL, NULL, 0.0032939715, NULL),
	('2023-01-13 11:00:00+00', 484984, -6, 106, 32.004143, NULL, NULL, NULL, 0.04355237, NULL),
	('2023-01-13 12:00:00+00', 484984, -6, 106, 31.547754, NULL, NULL, NULL, 0.02967706, NULL),
	('2023-01-13 13:00:00+00', 484984, -6, 106, 31.008478, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 14:00:00+00', 484984, -6, 106, 30.431818, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 15:00:00+00', 484984, -6, 106, 29.759485, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 16:00:00+00', 484984, -6, 106, 29.016565, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 17:00:00+00', 484984, -6, 106, 28.279932, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 18:00:00+00', 484984, -6, 106, 27.613428, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 19:00:00+00', 484984, -6, 106, 27.073969, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 20:00:00+00', 484984, -6, 106, 26.735834, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 21:00:00+00', 484984, -6, 106, 26.69317, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 22:00:00+00', 484984, -6, 106, 27.01977, NULL, NULL, NULL, 0, NULL),
	('2023-01-13 23:00:00+00', 484984, -6, 106, 27.708246, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 00:00:00+00', 484984, -6, 106, 28.63769, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 01:00:00+00', 484984, -6, 106, 29.606012, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 02:00:00+00', 484984, -6, 106, 30.416803, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 03:00:00+00', 484984, -6, 106, 30.968714, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 04:00:00+00', 484984, -6, 106, 31.409418, NULL, NULL, NULL, 0.0062893378, NULL),
	('2023-01-14 05:00:00+00', 484984, -6, 106, 31.788996, NULL, NULL, NULL, 0.060342252, NULL),
	('2023-01-14 06:00:00+00', 484984, -6, 106, 32.053734, NULL, NULL, NULL, 0.05668588, NULL),
	('2023-01-14 07:00:00+00', 484984, -6, 106, 32.193382, NULL, NULL, NULL, 0.0071332324, NULL),
	('2023-01-14 08:00:00+00', 484984, -6, 106, 32.22988, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 09:00:00+00', 484984, -6, 106, 32.409508, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 10:00:00+00', 484984, -6, 106, 32.404747, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 11:00:00+00', 484984, -6, 106, 32.1632, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 12:00:00+00', 484984, -6, 106, 31.687769, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 13:00:00+00', 484984, -6, 106, 31.027613, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 14:00:00+00', 484984, -6, 106, 30.263666, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 15:00:00+00', 484984, -6, 106, 29.49441, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 16:00:00+00', 484984, -6, 106, 28.816309, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 17:00:00+00', 484984, -6, 106, 28.295801, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 18:00:00+00', 484984, -6, 106, 27.94436, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 19:00:00+00', 484984, -6, 106, 27.718622, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 20:00:00+00', 484984, -6, 106, 27.556055, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 21:00:00+00', 484984, -6, 106, 27.431452, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 22:00:00+00', 484984, -6, 106, 27.397089, NULL, NULL, NULL, 0, NULL),
	('2023-01-14 23:00:00+00', 484984, -6, 106, 27.572626, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 00:00:00+00', 484984, -6, 106, 28.082422, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 01:00:00+00', 484984, -6, 106, 28.973627, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 02:00:00+00', 484984, -6, 106, 30.165003, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 03:00:00+00', 484984, -6, 106, 31.456995, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 04:00:00+00', 484984, -6, 106, 32.598106, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 05:00:00+00', 484984, -6, 106, 33.370598, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 06:00:00+00', 484984, -6, 106, 33.65618, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 07:00:00+00', 484984, -6, 106, 33.460472, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 08:00:00+00', 484984, -6, 106, 32.89971, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 09:00:00+00', 484984, -6, 106, 32.48397, NULL, NULL, NULL, 0.030801632, NULL),
	('2023-01-15 10:00:00+00', 484984, -6, 106, 32.332207, NULL, NULL, NULL, 0.6842464, NULL),
	('2023-01-15 11:00:00+00', 484984, -6, 106, 32.039055, NULL, NULL, NULL, 1.8427968, NULL),
	('2023-01-15 12:00:00+00', 484984, -6, 106, 31.621668, NULL, NULL, NULL, 2.8985739, NULL),
	('2023-01-15 13:00:00+00', 484984, -6, 106, 31.106989, NULL, NULL, NULL, 3.2961965, NULL),
	('2023-01-15 14:00:00+00', 484984, -6, 106, 30.53222, NULL, NULL, NULL, 2.8339028, NULL),
	('2023-01-15 15:00:00+00', 484984, -6, 106, 29.943628, NULL, NULL, NULL, 1.7906725, NULL),
	('2023-01-15 16:00:00+00', 484984, -6, 106, 29.392786, NULL, NULL, NULL, 0.73325634, NULL),
	('2023-01-15 17:00:00+00', 484984, -6, 106, 28.930231, NULL, NULL, NULL, 0.11813082, NULL),
	('2023-01-15 18:00:00+00', 484984, -6, 106, 28.598108, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 19:00:00+00', 484984, -6, 106, 28.191706, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 20:00:00+00', 484984, -6, 106, 28.090296, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 21:00:00+00', 484984, -6, 106, 28.347254, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 22:00:00+00', 484984, -6, 106, 28.833673, NULL, NULL, NULL, 0, NULL),
	('2023-01-15 23:00:00+00', 484984, -6, 106, 29.20672, NULL, NULL, NULL, 0.01873821, NULL),
	('2023-01-16 00:00:00+00', 484984, -6, 106, 29.644526, NULL, NULL, NULL, 0.15197694, NULL),
	('2023-01-16 01:00:00+00', 484984, -6, 106, 30.116785, NULL, NULL, NULL, 0.35171956, NULL),
	('2023-01-16 02:00:00+00', 484984, -6, 106, 30.597101, NULL, NULL, NULL, 0.54475665, NULL),
	('2023-01-16 03:00:00+00', 484984, -6, 106, 31.06109, NULL, NULL, NULL, 0.6918758, NULL),
	('2023-01-16 04:00:00+00', 484984, -6, 106, 31.484064, NULL, NULL, NULL, 0.77296793, NULL),
	('2023-01-16 05:00:00+00', 484984, -6, 106, 31.8399, NULL, NULL, NULL, 0.75903535, NULL),
	('2023-01-16 06:00:00+00', 484984, -6, 106, 32.102806, NULL, NULL, NULL, 0.61683357, NULL),
	('2023-01-16 07:00:00+00', 484984, -6, 106, 32.251427, NULL, NULL, NULL, 0.35948306, NULL),
	('2023-01-16 08:00:00+00', 484984, -6, 106, 32.273827, NULL, NULL, NULL, 0.09767152, NULL),
	('2023-01-16 09:00:00+00', 484984, -6, 106, 32.17144, NULL, NULL, NULL, 0, NULL),
	('2023-01-16 10:00:00+00', 484984, -6, 106, 32.182243, NULL, NULL, NULL, 0, NULL),
	('2023-01-16 11:00:00+00', 484984, -6, 106, 32.023735, NULL, NULL, NULL, 0, NULL),
	('2023-01-16 12:00:00+00', 484984, -6, 106, 31.593958, NULL, NULL, NULL, 0, NULL),
	('2023-01-16 13:00:00+00', 484984, -6, 106, 31.027735, NULL, NULL, NULL, 0, NULL),
	('2023-01-16 14:00:00+00', 484984, -6, 106, 30.530298, NULL, NULL, NULL, 0, NULL),
	('2023-01-16 15:00:00+00', 484984, -6, 106, 30.140162, NULL, NULL, NULL, 0.06708503, NULL),
	('2023-01-16 16:00:00+00', 484984, -6, 106, 29.76098, NULL, NULL, NULL, 0.47754496, NULL),
	('2023-01-16 17:00:00+00', 484984, -6, 106, 29.405115, NULL, NULL, NULL, 0.959754, NULL),
	('2023-01-16 18:00:00+00', 484984, -6, 106, 29.090326, NULL, NULL, NULL, 1.0880232, NULL),
	('2023-01-16 19:00:00+00', 484984, -6, 106, 28.84167, NULL, NULL, NULL, 0.7452518, NULL),
	('2023-01-16 20:00:00+00', 484984, -6, 106, 28.688074, NULL, NULL, NULL, 0.2352409, NULL),
	('2023-01-16 21:00:00+00', 484984, -6, 106, 28.655634, NULL, NULL, NULL, 0, NULL),
	('2023-01-16 22:00:00+00', 484984, -6, 106, 28.412775, NULL, NULL, NULL, 0, NULL),
	('2023-01-16 23:00:00+00', 484984, -6, 106, 28.370691, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 00:00:00+00', 484984, -6, 106, 28.712488, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 01:00:00+00', 484984, -6, 106, 29.394403, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 02:00:00+00', 484984, -6, 106, 30.329004, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 03:00:00+00', 484984, -6, 106, 31.412806, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 04:00:00+00', 484984, -6, 106, 32.52044, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 05:00:00+00', 484984, -6, 106, 33.494164, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 06:00:00+00', 484984, -6, 106, 34.16607, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 07:00:00+00', 484984, -6, 106, 34.418938, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 08:00:00+00', 484984, -6, 106, 34.247093, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 09:00:00+00', 484984, -6, 106, 33.764427, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 10:00:00+00', 484984, -6, 106, 33.139977, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 11:00:00+00', 484984, -6, 106, 32.49807, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 12:00:00+00', 484984, -6, 106, 31.85171, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 13:00:00+00', 484984, -6, 106, 31.117792, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 14:00:00+00', 484984, -6, 106, 30.203455, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 15:00:00+00', 484984, -6, 106, 29.099878, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 16:00:00+00', 484984, -6, 106, 27.916834, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 17:00:00+00', 484984, -6, 106, 26.836206, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 18:00:00+00', 484984, -6, 106, 26.023706, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 19:00:00+00', 484984, -6, 106, 25.563227, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 20:00:00+00', 484984, -6, 106, 25.454035, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 21:00:00+00', 484984, -6, 106, 25.657404, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 22:00:00+00', 484984, -6, 106, 26.144678, NULL, NULL, NULL, 0, NULL),
	('2023-01-17 23:00:00+00', 484984, -6, 106, 26.90484, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 00:00:00+00', 484984, -6, 106, 27.911768, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 01:00:00+00', 484984, -6, 106, 29.08758, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 02:00:00+00', 484984, -6, 106, 30.301325, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 03:00:00+00', 484984, -6, 106, 31.410303, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 04:00:00+00', 484984, -6, 106, 32.313316, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 05:00:00+00', 484984, -6, 106, 32.97683, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 06:00:00+00', 484984, -6, 106, 33.417015, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 07:00:00+00', 484984, -6, 106, 33.65786, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 08:00:00+00', 484984, -6, 106, 33.701225, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 09:00:00+00', 484984, -6, 106, 33.530846, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 10:00:00+00', 484984, -6, 106, 33.140434, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 11:00:00+00', 484984, -6, 106, 32.558037, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 12:00:00+00', 484984, -6, 106, 31.844965, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 13:00:00+00', 484984, -6, 106, 31.07403, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 14:00:00+00', 484984, -6, 106, 30.30868, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 15:00:00+00', 484984, -6, 106, 29.600824, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 16:00:00+00', 484984, -6, 106, 29.003046, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 17:00:00+00', 484984, -6, 106, 28.575312, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 18:00:00+00', 484984, -6, 106, 28.370386, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 19:00:00+00', 484984, -6, 106, 28.40484, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 20:00:00+00', 484984, -6, 106, 28.640131, NULL, NULL, NULL, 0, NULL),
	('2023-01-18 21:00:00+00', 484984, -6, 106, 28.815851, NULL, NULL, NULL, 0.0011209922, NULL),
	('2023-01-18 22:00:00+00', 484984, -6, 106, 29.036524, NULL, NULL, NULL, 0.05401019, NULL),
	('2023-01-18 23:00:00+00', 484984, -6, 106, 29.352228, NULL, NULL, NULL, 0.13915822, NULL),
	('2023-01-19 00:00:00+00', 484984, -6, 106, 29.744043, NULL, NULL, NULL, 0.20449609, NULL),
	('2023-01-19 01:00:00+00', 484984, -6, 106, 30.189844, NULL, NULL, NULL, 0.23289025, NULL),
	('2023-01-19 02:00:00+00', 484984, -6, 106, 30.663568, NULL, NULL, NULL, 0.23327023, NULL),
	('2023-01-19 03:00:00+00', 484984, -6, 106, 31.135035, NULL, NULL, NULL, 0.21786243, NULL),
	('2023-01-19 04:00:00+00', 484984, -6, 106, 31.57107, NULL, NULL, NULL, 0.18923357, NULL),
	('2023-01-19 05:00:00+00', 484984, -6, 106, 31.938562, NULL, NULL, NULL, 0.1434721, NULL),
	('2023-01-19 06:00:00+00', 484984, -6, 106, 32.208733, NULL, NULL, NULL, 0.083750114, NULL),
	('2023-01-19 07:00:00+00', 484984, -6, 106, 32.361534, NULL, NULL, NULL, 0.029401388, NULL),
	('2023-01-19 08:00:00+00', 484984, -6, 106, 32.38839, NULL, NULL, NULL, 0.0025547924, NULL),
	('2023-01-19 09:00:00+00', 484984, -6, 106, 32.29223, NULL, NULL, NULL, 0, NULL),
	('2023-01-19 10:00:00+00', 484984, -6, 106, 32.08474, NULL, NULL, NULL, 0, NULL),
	('2023-01-19 11:00:00+00', 484984, -6, 106, 31.782557, NULL, NULL, NULL, 0.00923546, NULL),
	('2023-01-19 12:00:00+00', 484984, -6, 106, 31.40362, NULL, NULL, NULL, 0.105706975, NULL),
	('2023-01-19 13:00:00+00', 484984, -6, 106, 30.965662, NULL, NULL, NULL, 0.380449, NULL),
	('2023-01-19 14:00:00+00', 484984, -6, 106, 30.487268, NULL, NULL, NULL, 0.80510974, NULL),
	('2023-01-19 15:00:00+00', 484984, -6, 106, 29.990656, NULL, NULL, NULL, 1.1855066, NULL),
	('2023-01-19 16:00:00+00', 484984, -6, 106, 29.504236, NULL, NULL, NULL, 1.2928247, NULL),
	('2023-01-19 17:00:00+00', 484984, -6, 106, 29.062891, NULL, NULL, NULL, 1.060605, NULL),
	('2023-01-19 18:00:00+00', 484984, -6, 106, 28.705042, NULL, NULL, NULL, 0.63982606, NULL),
	('2023-01-19 19:00:00+00', 484984, -6, 106, 28.466639, NULL, NULL, NULL, 0.25955588, NULL),
	('2023-01-19 20:00:00+00', 484984, -6, 106, 28.37417, NULL, NULL, NULL, 0.050740317, NULL),
	('2023-01-19 21:00:00+00', 484984, -6, 106, 28.438745, NULL, NULL, NULL, 0, NULL),
	('2023-01-19 22:00:00+00', 484984, -6, 106, 28.626856, NULL, NULL, NULL, 0, NULL),
	('2023-01-19 23:00:00+00', 484984, -6, 106, 28.893396, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 00:00:00+00', 484984, -6, 106, 29.321741, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 01:00:00+00', 484984, -6, 106, 29.86239, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 02:00:00+00', 484984, -6, 106, 30.472803, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 03:00:00+00', 484984, -6, 106, 31.092646, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 04:00:00+00', 484984, -6, 106, 31.630854, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 05:00:00+00', 484984, -6, 106, 31.99331, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 06:00:00+00', 484984, -6, 106, 32.21325, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 07:00:00+00', 484984, -6, 106, 32.408897, NULL, NULL, NULL, 0.018961262, NULL),
	('2023-01-20 08:00:00+00', 484984, -6, 106, 32.45269, NULL, NULL, NULL, 0.053212978, NULL),
	('2023-01-20 09:00:00+00', 484984, -6, 106, 32.331932, NULL, NULL, NULL, 0.018836465, NULL),
	('2023-01-20 10:00:00+00', 484984, -6, 106, 32.08477, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 11:00:00+00', 484984, -6, 106, 32.03591, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 12:00:00+00', 484984, -6, 106, 31.720057, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 13:00:00+00', 484984, -6, 106, 31.027796, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 14:00:00+00', 484984, -6, 106, 30.009699, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 15:00:00+00', 484984, -6, 106, 28.866114, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 16:00:00+00', 484984, -6, 106, 27.846277, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 17:00:00+00', 484984, -6, 106, 27.127344, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 18:00:00+00', 484984, -6, 106, 26.752985, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 19:00:00+00', 484984, -6, 106, 26.661768, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 20:00:00+00', 484984, -6, 106, 26.768, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 21:00:00+00', 484984, -6, 106, 27.027124, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 22:00:00+00', 484984, -6, 106, 27.441675, NULL, NULL, NULL, 0, NULL),
	('2023-01-20 23:00:00+00', 484984, -6, 106, 28.020288, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 00:00:00+00', 484984, -6, 106, 28.738611, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 01:00:00+00', 484984, -6, 106, 29.54156, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 02:00:00+00', 484984, -6, 106, 30.380213, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 03:00:00+00', 484984, -6, 106, 31.241022, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 04:00:00+00', 484984, -6, 106, 32.13073, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 05:00:00+00', 484984, -6, 106, 33.02288, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 06:00:00+00', 484984, -6, 106, 33.814384, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 07:00:00+00', 484984, -6, 106, 34.34063, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 08:00:00+00', 484984, -6, 106, 34.452934, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 09:00:00+00', 484984, -6, 106, 34.109642, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 10:00:00+00', 484984, -6, 106, 33.412987, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 11:00:00+00', 484984, -6, 106, 32.56066, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 12:00:00+00', 484984, -6, 106, 31.741175, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 13:00:00+00', 484984, -6, 106, 31.044, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 14:00:00+00', 484984, -6, 106, 30.441278, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 15:00:00+00', 484984, -6, 106, 29.845697, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 16:00:00+00', 484984, -6, 106, 29.195826, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 17:00:00+00', 484984, -6, 106, 28.508142, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 18:00:00+00', 484984, -6, 106, 27.868921, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 19:00:00+00', 484984, -6, 106, 27.385035, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 20:00:00+00', 484984, -6, 106, 27.137629, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 21:00:00+00', 484984, -6, 106, 27.165766, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 22:00:00+00', 484984, -6, 106, 27.47555, NULL, NULL, NULL, 0, NULL),
	('2023-01-21 23:00:00+00', 484984, -6, 106, 28.047632, NULL, NULL, NULL, 0, NULL),
	('2023-01-22 00:00:00+00', 484984, -6, 106, 28.827967, NULL, NULL, NULL, 0, NULL),
	('2023-01-22 01:00:00+00', 484984, -6, 106, 29.713343, NULL, NULL, NULL, 0, NULL),
	('2023-01-22 02:00:00+00', 484984, -6, 106, 30.558527, NULL, NULL, NULL, 0, NULL),
	('2023-01-22 03:00:00+00', 484984, -6, 106, 31.219416, NULL, NULL, NULL, 0, NULL),
	('2023-01-22 04:00:00+00', 484984, -6, 106, 31.634577, NULL, NULL, NULL, 0, NULL),
	('2023-01-22 05:00:00+00', 484984, -6, 106, 32.06524, NULL, NULL, NULL, 0.06931648, NULL),
	('2023-01-22 06:00:00+00', 484984, -6, 106, 32.37246, NULL, NULL, NULL, 0.2821535, NULL),
	('2023-01-22 07:00:00+00', 484984, -6, 106, 32.535484, NULL, NULL, NULL, 0.43887645, NULL),
	('2023-01-22 08:00:00+00', 484984, -6, 106, 32.548363, NULL, NULL, NULL, 0.4286766, NULL),
	('2023-01-22 09:00:00+00', 484984, -6, 106, 32.41915, NULL, NULL, NULL, 0.2925694, NULL),
	('2023-01-22 10:00:00+00', 484984, -6, 106, 32.1668, NULL, NULL, NULL, 0.14122948, NULL),
	('2023-01-22 11:00:00+00', 484984, -6, 106, 31.816614, NULL, NULL, NULL, 0.04697498, NULL),
	('2023-01-22 12:00:00+00', 484984, -6, 106, 31.396662, NULL, NULL, NULL, 0.011304859, NULL),
	('2023-01-22 13:00:00+00', 484984, -6, 106, 30.93548, NULL, NULL, NULL, 0.004108064, NULL),
	('2023-01-22 14:00:00+00', 484984, -6, 106, 30.46142, NULL, NULL, NULL, 0.007800525, NULL),
	('2023-01-22 15:00:00+00', 484984, -6, 106, 30.002863, NULL, NULL, NULL, 0.027172733, NULL),
	('2023-01-22 16:00:00+00', 484984, -6, 106, 29.587946, NULL, NULL, NULL, 0.07661618, NULL),
	('2023-01-22 17:00:00+00', 484984, -6, 106, 29.243189, NULL, NULL, NULL, 0.16795099, NULL),
	('2023-01-22 18:00:00+00', 484984, -6, 106, 28.991083, NULL, NULL, NULL, 0.30341, NULL),
	('2023-01-22 19:00:00+00', 484984, -6, 106, 28.847345, NULL, NULL, NULL, 0.46614558, NULL),
	('2023-01-22 20:00:00+00', 484984, -6, 106, 28.818842, NULL, NULL, NULL, 0.60892105, NULL),
	('2023-01-22 21:00:00+00', 484984, -6, 106, 28.903528, NULL, NULL, NULL, 0.65889955, NULL),
	('2023-01-22 22:00:00+00', 484984, -6, 106, 29.091974, NULL, NULL, NULL, 0.558123, NULL),
	('2023-01-22 23:00:00+00', 484984, -6, 106, 29.37002, NULL, NULL, NULL, 0.3260076, NULL),
	('2023-01-23 00:00:00+00', 484984, -6, 106, 29.721094, NULL, NULL, NULL, 0.08557364, NULL),
	('2023-01-23 01:00:00+00', 484984, -6, 106, 30.126917, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 02:00:00+00', 484984, -6, 106, 30.571833, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 03:00:00+00', 484984, -6, 106, 31.191004, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 04:00:00+00', 484984, -6, 106, 31.913904, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 05:00:00+00', 484984, -6, 106, 32.623314, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 06:00:00+00', 484984, -6, 106, 33.230095, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 07:00:00+00', 484984, -6, 106, 33.690697, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 08:00:00+00', 484984, -6, 106, 33.981865, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 09:00:00+00', 484984, -6, 106, 34.062492, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 10:00:00+00', 484984, -6, 106, 33.862907, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 11:00:00+00', 484984, -6, 106, 33.317863, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 12:00:00+00', 484984, -6, 106, 32.41909, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 13:00:00+00', 484984, -6, 106, 31.226221, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 14:00:00+00', 484984, -6, 106, 29.937738, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 15:00:00+00', 484984, -6, 106, 28.669886, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 16:00:00+00', 484984, -6, 106, 27.500818, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 17:00:00+00', 484984, -6, 106, 26.531702, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 18:00:00+00', 484984, -6, 106, 25.841883, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 19:00:00+00', 484984, -6, 106, 25.494715, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 20:00:00+00', 484984, -6, 106, 25.56875, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 21:00:00+00', 484984, -6, 106, 26.087183, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 22:00:00+00', 484984, -6, 106, 26.966272, NULL, NULL, NULL, 0, NULL),
	('2023-01-23 23:00:00+00', 484984, -6, 106, 28.01977, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 00:00:00+00', 484984, -6, 106, 29.031641, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 01:00:00+00', 484984, -6, 106, 29.854029, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 02:00:00+00', 484984, -6, 106, 30.462275, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 03:00:00+00', 484984, -6, 106, 30.959528, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 04:00:00+00', 484984, -6, 106, 31.404352, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 05:00:00+00', 484984, -6, 106, 31.78045, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 06:00:00+00', 484984, -6, 106, 32.075523, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 07:00:00+00', 484984, -6, 106, 32.27633, NULL, NULL, NULL, 0.01089694, NULL),
	('2023-01-24 08:00:00+00', 484984, -6, 106, 32.366966, NULL, NULL, NULL, 0.092729926, NULL),
	('2023-01-24 09:00:00+00', 484984, -6, 106, 32.3312, NULL, NULL, NULL, 0.29475242, NULL),
	('2023-01-24 10:00:00+00', 484984, -6, 106, 32.158043, NULL, NULL, NULL, 0.5532652, NULL),
	('2023-01-24 11:00:00+00', 484984, -6, 106, 31.84823, NULL, NULL, NULL, 0.704214, NULL),
	('2023-01-24 12:00:00+00', 484984, -6, 106, 31.41891, NULL, NULL, NULL, 0.6365925, NULL),
	('2023-01-24 13:00:00+00', 484984, -6, 106, 30.903711, NULL, NULL, NULL, 0.40642172, NULL),
	('2023-01-24 14:00:00+00', 484984, -6, 106, 30.348108, NULL, NULL, NULL, 0.17154217, NULL),
	('2023-01-24 15:00:00+00', 484984, -6, 106, 29.801477, NULL, NULL, NULL, 0.038184226, NULL),
	('2023-01-24 16:00:00+00', 484984, -6, 106, 29.308558, NULL, NULL, NULL, 0.0008746574, NULL),
	('2023-01-24 17:00:00+00', 484984, -6, 106, 28.903345, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 18:00:00+00', 484984, -6, 106, 28.604517, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 19:00:00+00', 484984, -6, 106, 28.341852, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 20:00:00+00', 484984, -6, 106, 28.14538, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 21:00:00+00', 484984, -6, 106, 28.041285, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 22:00:00+00', 484984, -6, 106, 28.114038, NULL, NULL, NULL, 0, NULL),
	('2023-01-24 23:00:00+00', 484984, -6, 106, 28.450495, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 00:00:00+00', 484984, -6, 106, 29.056818, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 01:00:00+00', 484984, -6, 106, 29.817713, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 02:00:00+00', 484984, -6, 106, 30.539606, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 03:00:00+00', 484984, -6, 106, 31.110376, NULL, NULL, NULL, 0.0023339526, NULL),
	('2023-01-25 04:00:00+00', 484984, -6, 106, 31.632624, NULL, NULL, NULL, 0.19238889, NULL),
	('2023-01-25 05:00:00+00', 484984, -6, 106, 32.055595, NULL, NULL, NULL, 0.49810112, NULL),
	('2023-01-25 06:00:00+00', 484984, -6, 106, 32.34591, NULL, NULL, NULL, 0.61786175, NULL),
	('2023-01-25 07:00:00+00', 484984, -6, 106, 32.487144, NULL, NULL, NULL, 0.44961274, NULL),
	('2023-01-25 08:00:00+00', 484984, -6, 106, 32.479485, NULL, NULL, NULL, 0.16090274, NULL),
	('2023-01-25 09:00:00+00', 484984, -6, 106, 32.335594, NULL, NULL, NULL, 0.0023354078, NULL),
	('2023-01-25 10:00:00+00', 484984, -6, 106, 32.236412, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 11:00:00+00', 484984, -6, 106, 32.09783, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 12:00:00+00', 484984, -6, 106, 31.706232, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 13:00:00+00', 484984, -6, 106, 31.086054, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 14:00:00+00', 484984, -6, 106, 30.275293, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 15:00:00+00', 484984, -6, 106, 29.317865, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 16:00:00+00', 484984, -6, 106, 28.283258, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 17:00:00+00', 484984, -6, 106, 27.284998, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 18:00:00+00', 484984, -6, 106, 26.46728, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 19:00:00+00', 484984, -6, 106, 25.958826, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 20:00:00+00', 484984, -6, 106, 25.824488, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 21:00:00+00', 484984, -6, 106, 26.050531, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 22:00:00+00', 484984, -6, 106, 26.572992, NULL, NULL, NULL, 0, NULL),
	('2023-01-25 23:00:00+00', 484984, -6, 106, 27.32339, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 00:00:00+00', 484984, -6, 106, 28.253595, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 01:00:00+00', 484984, -6, 106, 29.322565, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 02:00:00+00', 484984, -6, 106, 30.463068, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 03:00:00+00', 484984, -6, 106, 31.564844, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 04:00:00+00', 484984, -6, 106, 32.49685, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 05:00:00+00', 484984, -6, 106, 33.15609, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 06:00:00+00', 484984, -6, 106, 33.507866, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 07:00:00+00', 484984, -6, 106, 33.587547, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 08:00:00+00', 484984, -6, 106, 33.465233, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 09:00:00+00', 484984, -6, 106, 33.201744, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 10:00:00+00', 484984, -6, 106, 32.826927, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 11:00:00+00', 484984, -6, 106, 32.34777, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 12:00:00+00', 484984, -6, 106, 31.769312, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 13:00:00+00', 484984, -6, 106, 31.105585, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 14:00:00+00', 484984, -6, 106, 30.375452, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 15:00:00+00', 484984, -6, 106, 29.597223, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 16:00:00+00', 484984, -6, 106, 28.798395, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 17:00:00+00', 484984, -6, 106, 28.037775, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 18:00:00+00', 484984, -6, 106, 27.415857, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 19:00:00+00', 484984, -6, 106, 27.0516, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 20:00:00+00', 484984, -6, 106, 27.0292, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 21:00:00+00', 484984, -6, 106, 27.347986, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 22:00:00+00', 484984, -6, 106, 27.91482, NULL, NULL, NULL, 0, NULL),
	('2023-01-26 23:00:00+00', 484984, -6, 106, 28.590082, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 00:00:00+00', 484984, -6, 106, 29.257593, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 01:00:00+00', 484984, -6, 106, 29.870325, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 02:00:00+00', 484984, -6, 106, 30.44134, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 03:00:00+00', 484984, -6, 106, 30.994104, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 04:00:00+00', 484984, -6, 106, 31.51687, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 05:00:00+00', 484984, -6, 106, 31.958612, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 06:00:00+00', 484984, -6, 106, 32.266106, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 07:00:00+00', 484984, -6, 106, 32.424248, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 08:00:00+00', 484984, -6, 106, 32.460533, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 09:00:00+00', 484984, -6, 106, 32.40896, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 10:00:00+00', 484984, -6, 106, 32.267235, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 11:00:00+00', 484984, -6, 106, 31.990686, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 12:00:00+00', 484984, -6, 106, 31.533014, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 13:00:00+00', 484984, -6, 106, 30.900751, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 14:00:00+00', 484984, -6, 106, 30.171259, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 15:00:00+00', 484984, -6, 106, 29.4537, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 16:00:00+00', 484984, -6, 106, 28.822596, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 17:00:00+00', 484984, -6, 106, 28.28161, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 18:00:00+00', 484984, -6, 106, 27.792871, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 19:00:00+00', 484984, -6, 106, 27.350733, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 20:00:00+00', 484984, -6, 106, 27.035334, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 21:00:00+00', 484984, -6, 106, 26.991266, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 22:00:00+00', 484984, -6, 106, 27.334925, NULL, NULL, NULL, 0, NULL),
	('2023-01-27 23:00:00+00', 484984, -6, 106, 28.05578, NULL, NULL, NULL, 0, NULL),
	('2023-01-28 00:00:00+00', 484984, -6, 106, 28.988764, NULL, NULL, NULL, 0, NULL),
	('2023-01-28 01:00:00+00', 484984, -6, 106, 29.885859, NULL, NULL, NULL, 0, NULL),
	('2023-01-28 02:00:00+00', 484984, -6, 106, 30.54864, NULL, NULL, NULL, 0.05209353, NULL),
	('2023-01-28 03:00:00+00', 484984, -6, 106, 31.140985, NULL, NULL, NULL, 0.5246252, NULL),
	('2023-01-28 04:00:00+00', 484984, -6, 106, 31.66485, NULL, NULL, NULL, 1.1723042, NULL),
	('2023-01-28 05:00:00+00', 484984, -6, 106, 32.08663, NULL, NULL, NULL, 1.6473234, NULL),
	('2023-01-28 06:00:00+00', 484984, -6, 106, 32.38775, NULL, NULL, NULL, 1.8415153, NULL),
	('2023-01-28 07:00:00+00', 484984, -6, 106, 32.561333, NULL, NULL, NULL, 1.8526912, NULL),
	('2023-01-28 08:00:00+00', 484984, -6, 106, 32.60708, NULL, NULL, NULL, 1.819402, NULL),
	('2023-01-28 09:00:00+00', 484984, -6, 106, 32.527122, NULL, NULL, NULL, 1.803577, NULL),
	('2023-01-28 10:00:00+00', 484984, -6, 106, 32.32467, NULL, NULL, NULL, 1.7666519, NULL),
	('2023-01-28 11:00:00+00', 484984, -6, 106, 32.006523, NULL, NULL, NULL, 1.612097, NULL),
	('2023-01-28 12:00:00+00', 484984, -6, 106, 31.587183, NULL, NULL, NULL, 1.2777746, NULL),
	('2023-01-28 13:00:00+00', 484984, -6, 106, 31.092188, NULL, NULL, NULL, 0.82175434, NULL),
	('2023-01-28 14:00:00+00', 484984, -6, 106, 30.558466, NULL, NULL, NULL, 0.4014969, NULL),
	('2023-01-28 15:00:00+00', 484984, -6, 106, 30.030115, NULL, NULL, NULL, 0.14261156, NULL),
	('2023-01-28 16:00:00+00', 484984, -6, 106, 29.551264, NULL, NULL, NULL, 0.042935833, NULL),
	('2023-01-28 17:00:00+00', 484984, -6, 106, 29.158258, NULL, NULL, NULL, 0.026164576, NULL),
	('2023-01-28 18:00:00+00', 484984, -6, 106, 28.874079, NULL, NULL, NULL, 0.0528479, NULL),
	('2023-01-28 19:00:00+00', 484984, -6, 106, 28.707148, NULL, NULL, NULL, 0.12200326, NULL),
	('2023-01-28 20:00:00+00', 484984, -6, 106, 28.654505, NULL, NULL, NULL, 0.18418953, NULL),
	('2023-01-28 21:00:00+00', 484984, -6, 106, 28.707575, NULL, NULL, NULL, 0.1491122, NULL),
	('2023-01-28 22:00:00+00', 484984, -6, 106, 28.857721, NULL, NULL, NULL, 0.031776726, NULL),
	('2023-01-28 23:00:00+00', 484984, -6, 106, 29.071863, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 00:00:00+00', 484984, -6, 106, 29.184473, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 01:00:00+00', 484984, -6, 106, 29.604456, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 02:00:00+00', 484984, -6, 106, 30.321192, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 03:00:00+00', 484984, -6, 106, 31.197107, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 04:00:00+00', 484984, -6, 106, 32.044395, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 05:00:00+00', 484984, -6, 106, 32.71627, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 06:00:00+00', 484984, -6, 106, 33.152184, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 07:00:00+00', 484984, -6, 106, 33.360466, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 08:00:00+00', 484984, -6, 106, 33.370995, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 09:00:00+00', 484984, -6, 106, 33.20263, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 10:00:00+00', 484984, -6, 106, 32.865562, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 11:00:00+00', 484984, -6, 106, 32.37896, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 12:00:00+00', 484984, -6, 106, 31.773432, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 13:00:00+00', 484984, -6, 106, 31.068323, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 14:00:00+00', 484984, -6, 106, 30.247705, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 15:00:00+00', 484984, -6, 106, 29.269464, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 16:00:00+00', 484984, -6, 106, 28.116419, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 17:00:00+00', 484984, -6, 106, 26.859247, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 18:00:00+00', 484984, -6, 106, 25.709253, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 19:00:00+00', 484984, -6, 106, 25.21264, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 20:00:00+00', 484984, -6, 106, 25.078852, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 21:00:00+00', 484984, -6, 106, 25.315943, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 22:00:00+00', 484984, -6, 106, 25.90188, NULL, NULL, NULL, 0, NULL),
	('2023-01-29 23:00:00+00', 484984, -6, 106, 26.951777, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 00:00:00+00', 484984, -6, 106, 28.292048, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 01:00:00+00', 484984, -6, 106, 29.515253, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 02:00:00+00', 484984, -6, 106, 30.478785, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 03:00:00+00', 484984, -6, 106, 31.130884, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 04:00:00+00', 484984, -6, 106, 31.501337, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 05:00:00+00', 484984, -6, 106, 31.879084, NULL, NULL, NULL, 0.014221761, NULL),
	('2023-01-30 06:00:00+00', 484984, -6, 106, 32.159233, NULL, NULL, NULL, 0.06705895, NULL),
	('2023-01-30 07:00:00+00', 484984, -6, 106, 32.305138, NULL, NULL, NULL, 0.051973388, NULL),
	('2023-01-30 08:00:00+00', 484984, -6, 106, 32.30828, NULL, NULL, NULL, 0.0009497744, NULL),
	('2023-01-30 09:00:00+00', 484984, -6, 106, 32.33297, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 10:00:00+00', 484984, -6, 106, 32.419945, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 11:00:00+00', 484984, -6, 106, 32.2586, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 12:00:00+00', 484984, -6, 106, 31.787073, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 13:00:00+00', 484984, -6, 106, 31.042536, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 14:00:00+00', 484984, -6, 106, 30.135553, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 15:00:00+00', 484984, -6, 106, 29.1896, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 16:00:00+00', 484984, -6, 106, 28.291132, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 17:00:00+00', 484984, -6, 106, 27.48327, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 18:00:00+00', 484984, -6, 106, 26.797998, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 19:00:00+00', 484984, -6, 106, 26.28979, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 20:00:00+00', 484984, -6, 106, 26.036402, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 21:00:00+00', 484984, -6, 106, 26.103785, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 22:00:00+00', 484984, -6, 106, 26.50677, NULL, NULL, NULL, 0, NULL),
	('2023-01-30 23:00:00+00', 484984, -6, 106, 27.199518, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 00:00:00+00', 484984, -6, 106, 28.10357, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 01:00:00+00', 484984, -6, 106, 29.14477, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 02:00:00+00', 484984, -6, 106, 30.263575, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 03:00:00+00', 484984, -6, 106, 31.389704, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 04:00:00+00', 484984, -6, 106, 32.410454, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 05:00:00+00', 484984, -6, 106, 33.1755, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 06:00:00+00', 484984, -6, 106, 33.553, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 07:00:00+00', 484984, -6, 106, 33.504967, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 08:00:00+00', 484984, -6, 106, 33.123314, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 09:00:00+00', 484984, -6, 106, 32.590477, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 10:00:00+00', 484984, -6, 106, 32.381065, NULL, NULL, NULL, 0.03514439, NULL),
	('2023-01-31 11:00:00+00', 484984, -6, 106, 32.064293, NULL, NULL, NULL, 0.14335662, NULL),
	('2023-01-31 12:00:00+00', 484984, -6, 106, 31.622797, NULL, NULL, NULL, 0.14903024, NULL),
	('2023-01-31 13:00:00+00', 484984, -6, 106, 31.09942, NULL, NULL, NULL, 0.06558187, NULL),
	('2023-01-31 14:00:00+00', 484984, -6, 106, 30.544306, NULL, NULL, NULL, 0.0036638812, NULL),
	('2023-01-31 15:00:00+00', 484984, -6, 106, 30.005732, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 16:00:00+00', 484984, -6, 106, 29.435877, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 17:00:00+00', 484984, -6, 106, 28.893, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 18:00:00+00', 484984, -6, 106, 28.39776, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 19:00:00+00', 484984, -6, 106, 27.94723, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 20:00:00+00', 484984, -6, 106, 27.571589, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 21:00:00+00', 484984, -6, 106, 27.368341, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 22:00:00+00', 484984, -6, 106, 27.469812, NULL, NULL, NULL, 0, NULL),
	('2023-01-31 23:00:00+00', 484984, -6, 106, 27.954401, NULL, NULL, NULL, 0, NULL);
SELECT pg_catalog.setval('era5.load_attempt_id_seq', 1, true);
ALTER TABLE ONLY era5.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (month, part);
ALTER TABLE ONLY era5.load_attempt
    ADD CONSTRAINT load_attempt_pkey PRIMARY KEY (id);
ALTER TABLE ONLY era5.monthly_last_hour
    ADD CONSTRAINT monthly_last_hour_pkey PRIMARY KEY (month, location_id);
ALTER TABLE ONLY era5.monthly_summary
    ADD CONSTRAINT monthly_summary_pkey PRIMARY KEY (location_id, month);
ALTER TABLE ONLY era5.monthly_summary_2023
    ADD CONSTRAINT monthly_summary_2023_pkey PRIMARY KEY (location_id, month);
CREATE INDEX load_attempt_month ON era5.load_attempt USING btree (month, id DESC);
CREATE INDEX monthly_summary_month ON ONLY era5.monthly_summary USING brin (month) WITH (pages_per_range='32');
CREATE INDEX monthly_summary_2023_month_idx ON era5.monthly_summary_2023 USING brin (month) WITH (pages_per_range='32');
CREATE INDEX weather_location_id_idx ON ONLY public.weather USING brin (location_id) WITH (pages_per_range='16');
CREATE INDEX weather_2023_01_location_id_idx ON public.weather_2023_01 USING brin (location_id) WITH (pages_per_range='16');
ALTER INDEX era5.monthly_summary_month ATTACH PARTITION era5.monthly_summary_2023_month_idx;
ALTER INDEX era5.monthly_summary_pkey ATTACH PARTITION era5.monthly_summary_2023_pkey;
ALTER INDEX public.weather_location_id_idx ATTACH PARTITION public.weather_2023_01_location_id_idx;

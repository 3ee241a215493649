-- Version 1 of the project's own schema beside the table {weather}: the ledger of months, and the attempts to load them.
-- Databases exist that were made by it: what changes these tables is another step of postgres/schema_version.py.

CREATE SCHEMA IF NOT EXISTS {schema};

COMMENT ON SCHEMA {schema} IS 'The ledger of the months in the table {weather}';

-- One row per part of a month: a set of locations that one load brought, written in the transaction of that load. The
-- parts of a month have no location in common, so that each row of the table belongs to one part.
CREATE TABLE {schema}.ledger (
    month             date NOT NULL CHECK (extract(day FROM month) = 1),
    part              integer NOT NULL,
    state             text NOT NULL CHECK (state IN ('loaded', 'incomplete', 'dropped')),
    rows              bigint NOT NULL,
    locations         integer NOT NULL,
    location_ids      int4multirange NOT NULL,
    is_cut            boolean NOT NULL DEFAULT false,
    hours             integer NOT NULL,
    hours_expected    integer NOT NULL,
    missing_hours     jsonb NOT NULL,
    source            text NOT NULL,
    area              text,
    expver            jsonb NOT NULL,
    columns           jsonb NOT NULL,
    files             jsonb NOT NULL,
    warnings          text[] NOT NULL,
    raw_bytes         bigint NOT NULL,
    flat_bytes        bigint NOT NULL,
    flat_file         jsonb NOT NULL,
    seconds           jsonb NOT NULL,
    versions          jsonb NOT NULL,
    fingerprint       text NOT NULL,
    loaded_at         timestamptz NOT NULL DEFAULT now(),
    preliminary_hours jsonb NOT NULL DEFAULT '{}',
    version           text NOT NULL CHECK (version IN ('final', 'preliminary', 'mixed', 'unknown')),
    checked_at        timestamptz NOT NULL,
    revised_at        timestamptz,
    revision          jsonb,
    dropped_at        timestamptz CHECK ((dropped_at IS NULL) = (state <> 'dropped')),
    has_summaries     boolean NOT NULL,
    additions         jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (month, part)
);

COMMENT ON TABLE {schema}.ledger IS
    'One row per part of a month in {weather}: what it was made of, written by the load itself. Dropped parts stay here';
COMMENT ON COLUMN {schema}.ledger.part IS 'Number of the part within its month; a set of locations loaded again keeps it';
COMMENT ON COLUMN {schema}.ledger.state IS
    'loaded: every location has every hour of each column; incomplete: some are missing, and this was allowed; dropped';
COMMENT ON COLUMN {schema}.ledger.location_ids IS
    'The locations of the part, as runs of location_id; later loads of some of them take these out';
COMMENT ON COLUMN {schema}.ledger.is_cut IS
    'Whether later loads or drops took locations out: columns, expver and bytes are then those of the part as loaded';
COMMENT ON COLUMN {schema}.ledger.dropped_at IS 'When era5 drop removed the rows; NULL: they are in {weather}';
COMMENT ON COLUMN {schema}.ledger.expver IS 'Hours per version and column: 0001 final, 0005 preliminary (ERA5T), unknown';
COMMENT ON COLUMN {schema}.ledger.columns IS 'Facts per column that the files hold; the other columns are NULL';
COMMENT ON COLUMN {schema}.ledger.missing_hours IS
    'Runs of hours by column at which any of the locations lacks a value, for the columns that lack some';
COMMENT ON COLUMN {schema}.ledger.month IS 'The month''s first day';
COMMENT ON COLUMN {schema}.ledger.rows IS 'Rows of the month in {weather}';
COMMENT ON COLUMN {schema}.ledger.locations IS 'Grid points that have rows';
COMMENT ON COLUMN {schema}.ledger.hours IS 'Hours that have rows';
COMMENT ON COLUMN {schema}.ledger.hours_expected IS 'Hours of the month, in UTC: 672 to 744';
COMMENT ON COLUMN {schema}.ledger.source IS 'Where the files came from: cds, arco, files or sample';
COMMENT ON COLUMN {schema}.ledger.area IS 'The rectangle asked for, NORTH/WEST/SOUTH/EAST in degrees; NULL: all that the source holds';
COMMENT ON COLUMN {schema}.ledger.files IS 'The files that the rows were made from: path, bytes and SHA-256';
COMMENT ON COLUMN {schema}.ledger.warnings IS 'What was odd about the files, in words';
COMMENT ON COLUMN {schema}.ledger.raw_bytes IS 'Size of those files, in bytes';
COMMENT ON COLUMN {schema}.ledger.flat_bytes IS 'Size of the flat file of rows, in bytes';
COMMENT ON COLUMN {schema}.ledger.flat_file IS
    'The flat file of rows, which may have been removed since: path, bytes and SHA-256';
COMMENT ON COLUMN {schema}.ledger.seconds IS 'Seconds that each stage took: raw, flat, load';
COMMENT ON COLUMN {schema}.ledger.versions IS 'Versions of the software that made and loaded the rows';
COMMENT ON COLUMN {schema}.ledger.fingerprint IS 'The same for the same files and request: if it is equal, nothing changed';
COMMENT ON COLUMN {schema}.ledger.loaded_at IS 'When the rows were written; a month that is confirmed keeps it';
COMMENT ON COLUMN {schema}.ledger.preliminary_hours IS 'Runs of preliminary (ERA5T) hours, for the columns that have some';
COMMENT ON COLUMN {schema}.ledger.version IS
    'final, preliminary, mixed (some hours are preliminary) or unknown (the files do not say)';
COMMENT ON COLUMN {schema}.ledger.checked_at IS 'When the source was last asked, and its answer compared with the table';
COMMENT ON COLUMN {schema}.ledger.has_summaries IS
    'Whether {weather}_monthly has the summaries of the locations; if not, era5 db summaries adds them';
COMMENT ON COLUMN {schema}.ledger.additions IS
    'Columns that later loads added to the rows, each with its own source, area, files, flat file, fingerprint and time';
COMMENT ON COLUMN {schema}.ledger.revised_at IS 'When final data last replaced preliminary data; NULL: never';
COMMENT ON COLUMN {schema}.ledger.revision IS 'What that changed: preliminary hours, columns and files before';

CREATE VIEW {schema}.month AS
SELECT month,
       CASE WHEN bool_and(state = 'loaded') THEN 'loaded' ELSE 'incomplete' END AS state,
       count(*) AS parts,
       sum(rows)::bigint AS rows,
       sum(locations)::integer AS locations,
       range_agg(location_ids) AS location_ids,
       min(hours) AS hours_min,
       max(hours_expected) AS hours_expected,
       (SELECT string_agg(DISTINCT name, ', ' ORDER BY name)
        FROM {schema}.ledger AS part
        CROSS JOIN LATERAL (SELECT part.source AS name
                            UNION SELECT added ->> 'source' FROM jsonb_array_elements(part.additions) AS added) AS own
        WHERE part.month = ledger.month AND part.dropped_at IS NULL) AS sources,
       string_agg(DISTINCT version, ', ' ORDER BY version) AS versions,
       max(loaded_at) AS loaded_at
FROM {schema}.ledger
WHERE dropped_at IS NULL
GROUP BY month;

COMMENT ON VIEW {schema}.month IS 'One row per month in {weather}: the sum of its parts in {schema}.ledger';
COMMENT ON COLUMN {schema}.month.month IS 'First day of the month';
COMMENT ON COLUMN {schema}.month.state IS 'loaded: every location has every hour of each column of its part; else incomplete';
COMMENT ON COLUMN {schema}.month.parts IS 'Number of parts';
COMMENT ON COLUMN {schema}.month.rows IS 'Rows in {weather}';
COMMENT ON COLUMN {schema}.month.locations IS 'Locations in {weather}';
COMMENT ON COLUMN {schema}.month.location_ids IS 'The locations, as runs of location_id';
COMMENT ON COLUMN {schema}.month.hours_min IS 'Hours that the part with the fewest has';
COMMENT ON COLUMN {schema}.month.hours_expected IS 'Hours of the month';
COMMENT ON COLUMN {schema}.month.sources IS 'Where its parts came from';
COMMENT ON COLUMN {schema}.month.versions IS 'Versions of its parts: final, preliminary, mixed, unknown';
COMMENT ON COLUMN {schema}.month.loaded_at IS 'When rows of the month were last written';

-- One row per attempt, committed before the load begins, so that an interrupted load leaves a trace.
CREATE TABLE {schema}.load_attempt (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    month          date NOT NULL,
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at    timestamptz,
    outcome        text NOT NULL DEFAULT 'running' CHECK (outcome IN ('running', 'loaded', 'failed')),
    error          text,
    rows           bigint,
    backend_pid    integer NOT NULL DEFAULT pg_backend_pid(),
    backend_start  timestamptz
);

CREATE INDEX load_attempt_month ON {schema}.load_attempt (month, id DESC);

COMMENT ON TABLE {schema}.load_attempt IS
    'One row per attempt to load a month; running although its backend has ended means interrupted';
COMMENT ON COLUMN {schema}.load_attempt.id IS 'Ascending in the order of the attempts';
COMMENT ON COLUMN {schema}.load_attempt.month IS 'The month''s first day';
COMMENT ON COLUMN {schema}.load_attempt.started_at IS 'When it began';
COMMENT ON COLUMN {schema}.load_attempt.finished_at IS 'When it ended; NULL: not yet, or interrupted';
COMMENT ON COLUMN {schema}.load_attempt.outcome IS 'running, loaded or failed';
COMMENT ON COLUMN {schema}.load_attempt.error IS 'Why it failed';
COMMENT ON COLUMN {schema}.load_attempt.rows IS 'Rows sent so far; once loaded, the rows of the month';
COMMENT ON COLUMN {schema}.load_attempt.backend_pid IS 'The process of the session that loads, on the server';
COMMENT ON COLUMN {schema}.load_attempt.backend_start IS 'When that session began: numbers of processes are used again';

-- What the project keeps beside the table weather: the ledger of months, and the attempts to load them.
-- Every statement may run again on a database that has it already.

CREATE SCHEMA IF NOT EXISTS era5;

COMMENT ON SCHEMA era5 IS 'The ledger of the months in the table weather';

-- One row a month that the table holds, written in the transaction that loads the month.
CREATE TABLE IF NOT EXISTS era5.ledger (
    month          date PRIMARY KEY CHECK (extract(day FROM month) = 1),
    state          text NOT NULL CHECK (state IN ('loaded', 'incomplete')),
    rows           bigint NOT NULL,
    locations      integer NOT NULL,
    hours          integer NOT NULL,
    hours_expected integer NOT NULL,
    missing_hours  text[] NOT NULL,
    source         text NOT NULL,
    area           text,
    expver         jsonb NOT NULL,
    columns        jsonb NOT NULL,
    files          jsonb NOT NULL,
    warnings       text[] NOT NULL,
    raw_bytes      bigint NOT NULL,
    flat_bytes     bigint NOT NULL,
    seconds        jsonb NOT NULL,
    versions       jsonb NOT NULL,
    fingerprint    text NOT NULL,
    loaded_at      timestamptz NOT NULL DEFAULT now()
);

-- Those that came later: on a ledger that an earlier version made they are added, and its rows stay.
ALTER TABLE era5.ledger ADD COLUMN IF NOT EXISTS preliminary_hours jsonb NOT NULL DEFAULT '{}';
ALTER TABLE era5.ledger ADD COLUMN IF NOT EXISTS version text
    CHECK (version IN ('final', 'preliminary', 'mixed', 'unknown'));
ALTER TABLE era5.ledger ADD COLUMN IF NOT EXISTS checked_at timestamptz;
ALTER TABLE era5.ledger ADD COLUMN IF NOT EXISTS revised_at timestamptz;
ALTER TABLE era5.ledger ADD COLUMN IF NOT EXISTS revision jsonb;

COMMENT ON TABLE era5.ledger IS 'One row per month in weather: what it was made of, written by the load itself';
COMMENT ON COLUMN era5.ledger.state IS 'loaded, or incomplete: some hours or values are missing and this was allowed';
COMMENT ON COLUMN era5.ledger.expver IS 'Hours per version and column: 0001 final, 0005 preliminary (ERA5T), unknown';
COMMENT ON COLUMN era5.ledger.columns IS 'Facts per column that the files hold; the other columns are NULL';
COMMENT ON COLUMN era5.ledger.fingerprint IS 'The same for the same files and request: nothing changed';
COMMENT ON COLUMN era5.ledger.loaded_at IS 'When the rows were written; a month that is confirmed keeps it';
COMMENT ON COLUMN era5.ledger.preliminary_hours IS 'Runs of preliminary (ERA5T) hours by column, those that have some';
COMMENT ON COLUMN era5.ledger.version IS
    'final, preliminary, mixed (some hours are preliminary) or unknown (files that do not tell); NULL: see expver';
COMMENT ON COLUMN era5.ledger.checked_at IS 'When the source was last asked, and what came compared with the table';
COMMENT ON COLUMN era5.ledger.revised_at IS 'When final data last took the place of preliminary ones; NULL: never';
COMMENT ON COLUMN era5.ledger.revision IS 'What that changed: preliminary hours, columns and files before';

-- One row a try, committed before the try begins: a load that dies is told from one that never was.
CREATE TABLE IF NOT EXISTS era5.load_attempt (
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

CREATE INDEX IF NOT EXISTS load_attempt_month ON era5.load_attempt (month, id DESC);

COMMENT ON TABLE era5.load_attempt IS 'One row per try to load a month; running with its backend gone means interrupted';

-- The number of a place on ERA5's grid, as in weather.location_id: era5.location_id(-30, 30.25) is 346441.
CREATE OR REPLACE FUNCTION era5.location_id(latitude double precision, longitude double precision)
RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (round((latitude + 90) / 0.25) * 1440
            + (round((longitude + 179.75) / 0.25)::int + 1440) % 1440 + 1)::int
$$;

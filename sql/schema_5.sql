-- Version 5: the state of a source's store that was read; and months that are final by their age alone.

ALTER TABLE {schema}.ledger ADD COLUMN snapshot jsonb;

COMMENT ON COLUMN {schema}.ledger.snapshot IS
    'State of the source''s store that was read: its id and when it was written (UTC); NULL: the store has one state, or it was not recorded';

ALTER TABLE {schema}.ledger DROP CONSTRAINT ledger_version_check;
ALTER TABLE {schema}.ledger ADD CONSTRAINT ledger_version_check
    CHECK (version IN ('final', 'final by age', 'preliminary', 'mixed', 'unknown', 'generated'));

COMMENT ON COLUMN {schema}.ledger.version IS
    'Of the columns that are not generated: final; final by age (the store states none, and had them when ERA5T had been replaced); preliminary; mixed (some hours preliminary); unknown; generated: all are';
COMMENT ON COLUMN {schema}.month.versions IS
    'Versions of its parts: final, final by age, preliminary, mixed, unknown, generated';

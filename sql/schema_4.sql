-- Version 4: months of generated data are called so, and not final.

ALTER TABLE {schema}.ledger DROP CONSTRAINT ledger_version_check;
ALTER TABLE {schema}.ledger ADD CONSTRAINT ledger_version_check
    CHECK (version IN ('final', 'preliminary', 'mixed', 'unknown', 'generated'));

UPDATE {schema}.ledger
SET version = 'generated'
WHERE source = 'sample'
  AND NOT EXISTS (SELECT FROM jsonb_array_elements(additions) AS added WHERE added ->> 'source' <> 'sample');

COMMENT ON COLUMN {schema}.ledger.version IS
    'Of the columns that are not generated: final, preliminary, mixed (some hours preliminary), unknown; generated: all are';
COMMENT ON COLUMN {schema}.month.versions IS 'Versions of its parts: final, preliminary, mixed, unknown, generated';

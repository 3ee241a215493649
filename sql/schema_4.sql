-- Version 4: months of generated data are called so, and not final.

ALTER TABLE era5.ledger DROP CONSTRAINT ledger_version_check;
ALTER TABLE era5.ledger ADD CONSTRAINT ledger_version_check
    CHECK (version IN ('final', 'preliminary', 'mixed', 'unknown', 'generated'));

UPDATE era5.ledger
SET version = 'generated'
WHERE source = 'sample'
  AND NOT EXISTS (SELECT FROM jsonb_array_elements(additions) AS added WHERE added ->> 'source' <> 'sample');

COMMENT ON COLUMN era5.ledger.version IS
    'Of the columns that are not generated: final, preliminary, mixed (some hours preliminary), unknown; generated: all are';
COMMENT ON COLUMN era5.month.versions IS 'Versions of its parts: final, preliminary, mixed, unknown, generated';

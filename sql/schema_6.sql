-- Version 6: parts whose values another source has confirmed within the quantum of each variable.

ALTER TABLE {schema}.ledger ADD COLUMN confirmed jsonb;

COMMENT ON COLUMN {schema}.ledger.confirmed IS
    'The other source whose values equalled those of the rows within the quantum of each column, and whose version the hours have since: its name, snapshot, fingerprint and hours per version, the quanta (0: equal but for rounding) and when; NULL: none. source, files, fingerprint and columns stay those of the rows';

-- One row: total bytes of the raw and flat files of all months in the table, and the time of the last load that
-- succeeded or found its month unchanged.
SELECT coalesce(sum(raw_bytes) FILTER (WHERE dropped_at IS NULL), 0)::bigint,
       coalesce(sum(flat_bytes) FILTER (WHERE dropped_at IS NULL), 0)::bigint,
       extract(epoch FROM greatest(
           max(checked_at), (SELECT max(finished_at) FROM {schema}.load_attempt WHERE outcome = 'loaded')
       ))::float8
FROM {schema}.ledger

-- One row: bytes of raw and flat files of what the table holds, and when a load last ended well or found its month
-- unchanged.
SELECT coalesce(sum(raw_bytes) FILTER (WHERE dropped_at IS NULL), 0)::bigint,
       coalesce(sum(flat_bytes) FILTER (WHERE dropped_at IS NULL), 0)::bigint,
       extract(epoch FROM greatest(
           max(checked_at), (SELECT max(finished_at) FROM era5.load_attempt WHERE outcome = 'loaded')
       ))::float8
FROM era5.ledger

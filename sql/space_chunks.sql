-- Each chunk of the hypertable {weather}: its start and end in seconds since 1970, its bytes on disk with indexes, TOAST
-- and columnstore, and whether it is in the columnstore. Uses functions and views that all versions of TimescaleDB
-- have: where the catalogue keeps the columnstore's tables depends on the version. MATERIALIZED, so that the function
-- does not run once per chunk.
WITH size AS MATERIALIZED (
    SELECT chunk_schema, chunk_name, total_bytes FROM chunks_detailed_size('{weather}')
)
SELECT extract(epoch FROM c.range_start)::float8,
       extract(epoch FROM c.range_end)::float8,
       s.total_bytes,
       c.is_compressed
FROM timescaledb_information.chunks c
JOIN size s USING (chunk_schema, chunk_name)

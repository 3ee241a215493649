-- Each chunk of the hypertable weather: from when to when it is, in seconds since 1970, its bytes on disk with indexes,
-- TOAST and what of it is in the columnstore, and whether any is. By what all versions offer, since where the catalogue
-- keeps the columnstore's tables changed with them; MATERIALIZED, for the function may not run once a chunk.
WITH size AS MATERIALIZED (
    SELECT chunk_schema, chunk_name, total_bytes FROM chunks_detailed_size('weather')
)
SELECT extract(epoch FROM c.range_start)::float8,
       extract(epoch FROM c.range_end)::float8,
       s.total_bytes,
       c.is_compressed
FROM timescaledb_information.chunks c
JOIN size s USING (chunk_schema, chunk_name)

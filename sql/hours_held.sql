-- The first and the last hour of one location: fast by the index on location_id, although time has no index.
SELECT min(time), max(time) FROM {weather} WHERE location_id = %(location_id)s

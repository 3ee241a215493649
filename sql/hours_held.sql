-- The first and the last hour of one location: quick by the index on location_id, although none is on time.
SELECT min(time), max(time) FROM weather WHERE location_id = %(location_id)s

-- Any row: an hour and a location that the table holds. Reads one block, however large the table is.
SELECT time, location_id FROM {weather} LIMIT 1

-- The day (UTC) within a range with the most hours at a location (the last one on a tie), and its hour count.
SELECT (time AT TIME ZONE 'UTC')::date AS day, count(*)
FROM {weather}
WHERE location_id = %(location_id)s AND time >= %(start)s AND time < %(end)s
GROUP BY day
ORDER BY count(*) DESC, day DESC
LIMIT 1

-- The day (in UTC) of a range in which a location has most hours, the last of several, and how many.
SELECT (time AT TIME ZONE 'UTC')::date AS day, count(*)
FROM weather
WHERE location_id = %(location_id)s AND time >= %(start)s AND time < %(end)s
GROUP BY day
ORDER BY count(*) DESC, day DESC
LIMIT 1

-- How many attempts to load a month had each outcome, as in attempt_outcome.sql.
SELECT {outcome}, count(*)
FROM era5.load_attempt a
GROUP BY 1

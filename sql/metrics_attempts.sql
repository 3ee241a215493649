-- Number of attempts to load a month by outcome, as in attempt_outcome.sql.
SELECT {outcome}, count(*)
FROM {schema}.load_attempt a
GROUP BY 1

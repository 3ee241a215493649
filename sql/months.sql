-- Every month that the table holds or whose load was attempted, in order: its state, its rows, whether some of its
-- hours are preliminary, and its last attempt, with the outcome of attempt_outcome.sql. Only here does the state of a
-- month follow from the states of its parts, which the load writes to the ledger.
WITH held AS (
    SELECT month, bool_and(state = 'loaded') FILTER (WHERE dropped_at IS NULL) AS is_complete,
           sum(rows) FILTER (WHERE dropped_at IS NULL)::bigint AS rows,
           bool_or(version IN ('preliminary', 'mixed')) FILTER (WHERE dropped_at IS NULL) AS is_preliminary,
           true AS was_loaded
    FROM {schema}.ledger GROUP BY month
), attempt AS (
    SELECT DISTINCT ON (month) month, {outcome} AS outcome, started_at, finished_at, error
    FROM {schema}.load_attempt a ORDER BY month, id DESC
)
SELECT month,
       CASE WHEN is_complete THEN 'loaded'
            WHEN NOT is_complete THEN 'incomplete'
            WHEN outcome = 'running' THEN 'loading'
            WHEN was_loaded THEN 'dropped'
            ELSE 'failed' END,
       coalesce(rows, 0),
       coalesce(is_preliminary, false),
       outcome, started_at, finished_at, error
FROM held
FULL JOIN attempt USING (month)
ORDER BY month

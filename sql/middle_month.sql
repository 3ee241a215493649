-- By the ledger: how many months of a range the table holds, and the start of the middle one.
SELECT count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY month)::timestamp AT TIME ZONE 'UTC'
FROM (
    SELECT DISTINCT month
    FROM {schema}.ledger
    WHERE dropped_at IS NULL
      AND month >= date_trunc('month', coalesce(%(start)s::timestamptz AT TIME ZONE 'UTC', '-infinity'))
      AND month < coalesce(%(end)s::timestamptz AT TIME ZONE 'UTC', 'infinity')
) AS held

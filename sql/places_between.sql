-- By the ledger: the locations with values of any of the columns in months from `first` to `last`: all of them, and
-- those of parts with at least `fewest_hours`. A parameter that is NULL does not restrict.
SELECT range_agg(location_ids), range_agg(location_ids) FILTER (WHERE hours >= %(fewest_hours)s)
FROM {schema}.ledger
WHERE dropped_at IS NULL
  AND month BETWEEN coalesce(%(first)s::date, month) AND coalesce(%(last)s::date, month)
  AND (
    %(columns)s::text[] IS NULL
    OR EXISTS (SELECT FROM jsonb_array_elements(columns) one WHERE one ->> 'column' = ANY (%(columns)s::text[]))
  )

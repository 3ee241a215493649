-- By the ledger: the locations that the table holds in one month (NULL: in any), with values of one column (NULL: of
-- any).
SELECT range_agg(location_ids)
FROM {schema}.ledger
WHERE dropped_at IS NULL
  AND month = coalesce(%(month)s::date, month)
  AND (%(column)s::text IS NULL OR columns @> jsonb_build_array(jsonb_build_object('column', %(column)s::text)))

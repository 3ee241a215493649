-- The newest month in which a part covers this location and has values of this column.
SELECT month
FROM {schema}.ledger
WHERE dropped_at IS NULL
  AND location_ids @> %(location_id)s::int
  AND columns @> jsonb_build_array(jsonb_build_object('column', %(column)s::text))
ORDER BY month DESC
LIMIT 1

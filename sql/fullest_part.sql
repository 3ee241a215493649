-- By the ledger: the fullest part of a month: of those with the largest share of the month's hours, the one with values
-- in the most columns, then at the most locations, then the latest; its month, locations and columns.
SELECT month, location_ids, jsonb_path_query_array(columns, '$[*].column')
FROM {schema}.ledger
WHERE dropped_at IS NULL
ORDER BY hours::float8 / hours_expected DESC, jsonb_array_length(columns) DESC, locations DESC, month DESC
LIMIT 1

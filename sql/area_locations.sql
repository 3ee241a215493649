-- By the ledger: the sets of locations that the table holds within an area, and how many months have each set.
SELECT location_ids, count(*)
FROM (
    SELECT range_agg(location_ids) * %(location_ids)s::int4multirange AS location_ids
    FROM {schema}.ledger
    WHERE dropped_at IS NULL AND location_ids && %(location_ids)s::int4multirange
    GROUP BY month
) AS of_month
GROUP BY location_ids

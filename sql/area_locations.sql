-- The sets of locations within an area that the table holds by the ledger, and the number of months that have each.
SELECT location_ids, count(*)
FROM (
    SELECT range_agg(location_ids) * %(location_ids)s::int4multirange AS location_ids
    FROM era5.ledger
    WHERE dropped_at IS NULL AND location_ids && %(location_ids)s::int4multirange
    GROUP BY month
) AS of_month
GROUP BY location_ids

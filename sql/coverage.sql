-- By the ledger: each area of the table, its months, and the state of each variable in these months.
--
-- An area is the set of locations of one load. More than %(most_alike)s sets with the same months, variables and states
-- are combined into one area, so that thousands of points loaded in the same way are not listed one by one.
WITH part AS (
    SELECT month,
           location_ids,
           (SELECT jsonb_object_agg(
                       facts ->> 'column',
                       CASE WHEN missing_hours ? (facts ->> 'column') AND preliminary_hours ? (facts ->> 'column')
                            THEN 'incomplete and preliminary'
                            WHEN missing_hours ? (facts ->> 'column') THEN 'incomplete'
                            WHEN preliminary_hours ? (facts ->> 'column') THEN 'preliminary'
                            ELSE 'complete' END)
            FROM jsonb_array_elements(columns) AS facts) AS states
    FROM {schema}.ledger
    WHERE dropped_at IS NULL
),
place_set AS (
    SELECT location_ids, md5(string_agg(month::text || states::text, ',' ORDER BY month)) AS coverage
    FROM part
    GROUP BY location_ids
),
counted AS (
    SELECT location_ids, coverage, count(*) OVER (PARTITION BY coverage) AS alike
    FROM place_set
),
area AS (
    SELECT range_agg(location_ids) AS location_ids, min(location_ids::text)::int4multirange AS example
    FROM counted
    GROUP BY coverage, CASE WHEN alike > %(most_alike)s THEN '' ELSE location_ids::text END
)
SELECT area.location_ids, array_agg(part.month ORDER BY part.month), jsonb_agg(part.states ORDER BY part.month)
FROM area
JOIN part ON part.location_ids = area.example
GROUP BY area.location_ids, area.example

-- Statements that copy the comments of {schema}.monthly_summary to its partitions, whose new columns have none yet.
-- `columns`: the names of these columns; NULL: all.
SELECT format('COMMENT ON COLUMN %%s.%%I IS %%L', relid::regclass, attname, col_description(attrelid, attnum))
FROM pg_partition_tree('{schema}.monthly_summary')
JOIN pg_attribute ON attrelid = '{schema}.monthly_summary'::regclass AND attnum > 0 AND NOT attisdropped
WHERE level > 0 AND (%(columns)s::text[] IS NULL OR attname = ANY(%(columns)s::text[]))
UNION ALL
SELECT format('COMMENT ON TABLE %%s IS %%L', relid::regclass, %(comment)s::text)
FROM pg_partition_tree('{schema}.monthly_summary')
WHERE level > 0

-- The statements that give the years of era5.monthly_summary the comments of the table: new columns come without.
-- `columns`: the names of these, NULL: all.
SELECT format('COMMENT ON COLUMN %%s.%%I IS %%L', relid::regclass, attname, col_description(attrelid, attnum))
FROM pg_partition_tree('era5.monthly_summary')
JOIN pg_attribute ON attrelid = 'era5.monthly_summary'::regclass AND attnum > 0 AND NOT attisdropped
WHERE level > 0 AND (%(columns)s::text[] IS NULL OR attname = ANY(%(columns)s::text[]))
UNION ALL
SELECT format('COMMENT ON TABLE %%s IS %%L', relid::regclass, %(comment)s::text)
FROM pg_partition_tree('era5.monthly_summary')
WHERE level > 0

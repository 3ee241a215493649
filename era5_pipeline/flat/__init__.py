"""Raw files to rows: a month as one flat file, in the order and the units of the table, with its facts."""

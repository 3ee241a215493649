"""From raw files to rows: a month as one flat file in the table's order and units, with its facts."""

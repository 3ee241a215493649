"""The page of a climate answer: one HTML file that opens without network and without JavaScript."""

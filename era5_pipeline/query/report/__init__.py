"""The page of a climate answer: one HTML file that opens without network and without JavaScript.

Here: its words, tables, figures with captions, the SQL, and writing it. Not here: computing the answer
(`query/climate`), or drawing (`query/climate_plots`).
"""

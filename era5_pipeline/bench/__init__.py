"""Benchmarks of loading, as ratios within one run; docs/performance.md shows the results and how to repeat them.

Every measurement counts the rows in the table afterwards. Compared items run in turns, three times by default, and
results are medians, so that variations of the machine's speed affect all items.
"""

"""The ways to load rows into a table: each a small class in one registry, all under one contract test.

A way is given a batch of rows in memory, as the study that is reproduced begins with a data frame. What it makes of the
batch first (tuples, a CSV or Parquet file) counts in its full rate, and not in its copy rate.
"""

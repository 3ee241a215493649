"""Measurements of loading, as ratios within one run: what docs/performance.md shows, and how to repeat it.

Every result counts the rows it finds afterwards. What is compared takes turns, three times, and medians are given: the
machine's own moods then fall on both sides.
"""

"""Benchmarks of loading, as ratios within one run; docs/performance.md shows the results and how to repeat them."""

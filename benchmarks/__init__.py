"""Benchmarks, beside the package and no part of its wheel: suites, what they load, where they measure, reports."""

"""The source `sample`: generated weather, for tests and benchmarks."""

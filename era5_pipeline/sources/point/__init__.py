"""The source `point`: all hours of a place by one request, to the CDS dataset of time series; a month is a slice."""

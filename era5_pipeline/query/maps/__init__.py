"""Fields for maps: one variable of an hour, a day, a month, an anomaly or a trend, read from the warehouse.

Here: reading, units and words. Not here: drawing (`plots`), or the definitions of complete years, anomalies and trends
(`climate`), which are the same as of a place.
"""

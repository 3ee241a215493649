"""How the weather of a place has changed: days, years, anomalies, trends, indices, records, from the table's hours.

The functions here are pure: numbers in, numbers out. `read_climate` alone asks the database.
"""

"""Views for other programs: units and descriptions as rows, days, runs of hours, cells where PostGIS is installed."""

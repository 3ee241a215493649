"""Figures: maps and their animations, series, coverage, and those of a climate answer."""

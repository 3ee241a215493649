"""Summaries of a month, location by location, made while it is flattened: what the view `weather_monthly` shows."""

"""Hours and days of places by Open-Meteo's conventions: the question, variables and units, and each answer format."""

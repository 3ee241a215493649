"""Hours and days of places by Open-Meteo's conventions: what is asked, variables and units, the answer in each form."""

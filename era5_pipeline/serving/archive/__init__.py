"""Hours and days of places by Open-Meteo's conventions: what is asked, variables and units, the answer in each form.

Their conventions are those of github.com/open-meteo/open-meteo at ba13de1c; docs/http.md says where this differs.
"""

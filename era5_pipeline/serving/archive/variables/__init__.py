"""Variables by Open-Meteo's names: the columns and formula of each, its unit, and how it is rounded."""

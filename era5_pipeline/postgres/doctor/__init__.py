"""`era5 doctor`: a server examined, its settings compared with what bulk loads need."""

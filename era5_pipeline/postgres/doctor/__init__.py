"""`era5 doctor`: a server's settings compared with what bulk loads need, and other findings."""

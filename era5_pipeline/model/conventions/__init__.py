"""Names of variables and units by the CF conventions."""

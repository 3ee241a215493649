"""What others call our variables and units: the CF conventions."""

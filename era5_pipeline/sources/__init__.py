"""Where months come from: each source turns a month into raw files with their provenance."""

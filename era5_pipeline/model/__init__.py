"""What things are: months, variables, the grid, hours, versions of ERA5, errors, settings; one definition each."""

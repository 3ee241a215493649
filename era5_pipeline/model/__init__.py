"""The concepts of the project, one definition each: months, hours, variables, the grid, sources, versions, errors."""

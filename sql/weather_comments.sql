-- Comments of the table {weather}: `\d+ {weather}` shows them. `variables`: one statement for each variable of
-- era5_pipeline/model/variables.py.
COMMENT ON TABLE {weather} IS
    '{dataset}, hourly, on its grid of {step} degrees: one row for each location and hour. Times are UTC. NULL: the files lack the value';
COMMENT ON COLUMN {weather}.time IS
    'Valid time, on the hour, to be written with its zone: ''2023-07-01 12:00Z''. Values are of that instant; totals are of the hour that ends then';
COMMENT ON COLUMN {weather}.location_id IS
    'Number of the grid point, 1 to {grid_locations}: ((latitude + 90) * {per_degree})::int * {grid_columns} + ((longitude + {west}) * {per_degree})::int + 1, or {schema}.at(latitude, longitude)';
COMMENT ON COLUMN {weather}.latitude IS 'Degrees north, -90 to 90, a multiple of {step}. To find a place, location_id is faster';
COMMENT ON COLUMN {weather}.longitude IS 'Degrees east, -{west} to 180, a multiple of {step}. To find a place, location_id is faster';
{variables}

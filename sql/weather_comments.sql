-- Comments of the table weather: `\d+ weather` shows them. `variables`: one statement for each variable of
-- era5_pipeline/model/variables.py.
COMMENT ON TABLE weather IS
    'ERA5, hourly, on its grid of 0.25 degrees: one row for each location and hour. Times are UTC. NULL: the files lack the value';
COMMENT ON COLUMN weather.time IS
    'Valid time, on the hour, to be written with its zone: ''2023-07-01 12:00Z''. Values are of that instant; totals are of the hour that ends then';
COMMENT ON COLUMN weather.location_id IS
    'Number of the grid point, 1 to 1038240: ((latitude + 90) * 4)::int * 1440 + ((longitude + 179.75) * 4)::int + 1, or era5.at(latitude, longitude)';
COMMENT ON COLUMN weather.latitude IS 'Degrees north, -90 to 90, a multiple of 0.25. To find a place, location_id is faster';
COMMENT ON COLUMN weather.longitude IS 'Degrees east, -179.75 to 180, a multiple of 0.25. To find a place, location_id is faster';
{variables}

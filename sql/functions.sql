-- Functions for queries of the table {weather}. The statements are idempotent.

-- A separate function, so that {schema}.at() stays one expression, which the planner inlines.
CREATE OR REPLACE FUNCTION {schema}.refuse_coordinates(latitude double precision, longitude double precision)
RETURNS integer LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RAISE EXCEPTION 'latitude %, longitude % is out of range', latitude, longitude
    USING ERRCODE = 'numeric_value_out_of_range',
          HINT = 'Give the latitude first, from -90 to 90, then the longitude, from -180 to 360.';
END
$$;

-- NULL gives NULL, although the function is not declared STRICT: a strict one with a CASE would not be inlined.
CREATE OR REPLACE FUNCTION {schema}.at(latitude double precision, longitude double precision)
RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN latitude BETWEEN -90 AND 90 AND longitude BETWEEN -180 AND 360
    THEN round((latitude + 90) * {per_degree})::integer * {grid_columns} + (round((longitude + {west}) * {per_degree})::integer + {grid_columns}) % {grid_columns} + 1
    ELSE {schema}.refuse_coordinates(latitude, longitude)
END;

CREATE OR REPLACE FUNCTION {schema}.location_id(latitude double precision, longitude double precision)
RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN {schema}.at(latitude, longitude);

COMMENT ON FUNCTION {schema}.at IS
    'The location_id of the nearest grid point; latitude -90 to 90, longitude -180 to 360, in degrees. {schema}.at(-30, {example_longitude}) is {example_id}';
COMMENT ON FUNCTION {schema}.location_id IS 'The same as {schema}.at';
COMMENT ON FUNCTION {schema}.refuse_coordinates IS 'Raises the error of {schema}.at for coordinates that are out of range';

-- Functions for queries of the table weather. The statements are idempotent.

-- A separate function, so that era5.at() stays one expression, which the planner inlines.
CREATE OR REPLACE FUNCTION era5.refuse_coordinates(latitude double precision, longitude double precision)
RETURNS integer LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RAISE EXCEPTION 'latitude %, longitude % is out of range', latitude, longitude
    USING ERRCODE = 'numeric_value_out_of_range',
          HINT = 'Give the latitude first, from -90 to 90, then the longitude, from -180 to 360.';
END
$$;

-- NULL gives NULL, although the function is not declared STRICT: a strict one with a CASE would not be inlined.
CREATE OR REPLACE FUNCTION era5.at(latitude double precision, longitude double precision)
RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN latitude BETWEEN -90 AND 90 AND longitude BETWEEN -180 AND 360
    THEN round((latitude + 90) * 4)::integer * 1440 + (round((longitude + 179.75) * 4)::integer + 1440) % 1440 + 1
    ELSE era5.refuse_coordinates(latitude, longitude)
END;

CREATE OR REPLACE FUNCTION era5.location_id(latitude double precision, longitude double precision)
RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN era5.at(latitude, longitude);

COMMENT ON FUNCTION era5.at IS
    'The location_id of the nearest grid point; latitude -90 to 90, longitude -180 to 360, in degrees. era5.at(-30, 30.25) is 346441';
COMMENT ON FUNCTION era5.location_id IS 'The same as era5.at';
COMMENT ON FUNCTION era5.refuse_coordinates IS 'Raises the error of era5.at for coordinates that are out of range';

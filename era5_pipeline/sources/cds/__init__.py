"""The source `cds`: months from the Copernicus Climate Data Store, requested one by one or a few together."""

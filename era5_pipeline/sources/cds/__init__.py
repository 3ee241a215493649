"""The source `cds`: months from the Copernicus Climate Data Store, one request a month, through its own client."""

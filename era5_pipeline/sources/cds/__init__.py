"""The source `cds`: months from the Copernicus Climate Data Store, one request per month, through its own client."""

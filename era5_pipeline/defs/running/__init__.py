"""What runs the assets: the Dagster instance, its storage and services, and a month run in this process."""

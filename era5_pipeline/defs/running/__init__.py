"""What runs the assets: the Dagster instance, its storage, queue and services, a month run in this process."""

"""Dagster's instance: its storage, queue and launcher, which dagster.yaml names, its services, and lost runs."""

"""What Dagster costs a month: a backfill through `era5 up`, its daemon and its queue, launched as the web UI does."""

"""What a run of a tiny month costs: a backfill through `era5 up`, its daemon and its queue, over the web UI's own API."""

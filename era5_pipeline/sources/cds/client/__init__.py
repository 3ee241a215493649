"""The Climate Data Store as a service: the key, calls through its own client, what its answers mean, and retries."""

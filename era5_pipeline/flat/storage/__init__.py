"""A month's files between its stages: on this machine, in the store, or removed after the load."""

"""The embedded PostgreSQL: its data folder, account, socket, processes and settings."""

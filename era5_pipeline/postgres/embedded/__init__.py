"""The embedded PostgreSQL server: its data folder, OS user, socket, processes and settings."""

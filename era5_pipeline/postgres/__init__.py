"""PostgreSQL: connections, database URLs, errors, the embedded server, and settings for bulk loads."""

"""The server: connecting, database URLs, errors of the server; the embedded server; settings for bulk loads."""

"""HTTP addresses that settings give, and posts to a webhook."""

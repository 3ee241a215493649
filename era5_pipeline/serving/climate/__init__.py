"""Climate answers of a place over HTTP."""

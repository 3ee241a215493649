"""Which months are due, and what a load would take: months, requests, bytes and hours, before anything starts."""

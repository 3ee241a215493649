"""Which months are due, and the cost of a load: months, requests, bytes and hours, before anything starts."""

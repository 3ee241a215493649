"""A climate answer from the warehouse: its hours, what the ledger says of them, and the answer they make."""

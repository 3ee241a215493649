"""Flat months into the table `weather`: connecting, the layouts of the table, replacing a month, the ledger."""

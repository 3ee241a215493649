"""What a user would choose instead of a warehouse: each keeps the same year, and answers the same questions."""

"""From the table to arrays: hours of a place, boxes, fields, what the table holds and what is missing."""

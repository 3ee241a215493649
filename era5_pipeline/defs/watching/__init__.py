"""What watches the months: alerts of failed runs, and whether the newest month is there."""

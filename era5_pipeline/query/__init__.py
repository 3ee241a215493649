"""The table to answers: series and maps of the weather, as values and as pictures."""

"""Questions to the table weather: series and maps, as numpy arrays and as pictures."""

"""How fast questions about one place are answered: 85 years of hours, their yearly means, a year, its climate."""

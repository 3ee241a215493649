"""Numbers as people read them: 1,234 rows/s, 1.2 M, 12 days."""

from __future__ import annotations


def rows_per_second(value: float) -> str:
    """A rate with three digits: 950, 28,400, 2.09 M."""
    if value >= 999_500:
        return f"{value / 1e6:.3g} M"
    return f"{float(f'{value:.3g}'):,.0f}"


def days(value: float) -> str:
    """Days with two digits; years from a thousand on."""
    if value >= 1000:
        return f"{float(f'{value / 365.25:.2g}'):,.0f} years"
    return f"{float(f'{value:.2g}'):,g} days"


def short(value: float) -> str:
    """A number with three digits."""
    return f"{float(f'{value:.3g}'):,g}"

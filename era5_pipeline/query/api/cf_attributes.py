"""Attributes of variables by the CF conventions: units that udunits reads, names, and how a value covers its hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.model.conventions.cf_names import STANDARD_NAMES, cell_method, cf_unit

if TYPE_CHECKING:
    from era5_pipeline.model.variables import Variable

CONVENTIONS = "CF-1.10"


def cf_attributes(variable: Variable) -> dict[str, str]:
    """`units`, `long_name`, `description`, `cell_methods`, ERA5's short name and, where CF has one, a standard name.

    >>> from era5_pipeline.model.variables import BY_COLUMN
    >>> attributes = cf_attributes(BY_COLUMN["total_precipitation"])
    >>> attributes["standard_name"], attributes["units"], attributes["cell_methods"]
    ('lwe_thickness_of_precipitation_amount', 'mm', 'time: sum')
    """
    attributes = {
        "long_name": variable.long_name,
        "units": cf_unit(variable),
        "cell_methods": f"time: {cell_method(variable)}",
        "description": variable.description,
        "short_name": variable.short_name,
    }
    if variable.column in STANDARD_NAMES:
        attributes["standard_name"] = STANDARD_NAMES[variable.column]
    return attributes

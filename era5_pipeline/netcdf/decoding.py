"""How numbers stored in a file become values in the table's units, or the file's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable

    Floats = npt.NDArray[np.floating[Any]]

# Values per conversion: half a megabyte of float64, which fits in the processor's cache.
_CACHED_VALUES = 1 << 16


@dataclass(frozen=True)
class Decoding:
    """Conversion of stored numbers to values in the unit of the table or the file, in steps (scale, offset).

    Source: CF 8.1 (value * scale_factor + add_offset), then the variable's unit conversion, both in float64 and rounded
    once, to float32 (or not at all, into float64). Stored numbers among `fills` are missing.
    """

    steps: tuple[tuple[float, float], ...]
    fills: tuple[Any, ...]
    is_unsigned: bool

    @classmethod
    def of(cls, attributes: Mapping[Any, Any], variable: Variable | None) -> Self:
        """The decoding of a variable with these attributes; None: into the units of the file, not the table's."""
        packing = (float(attributes.get("scale_factor", 1.0)), float(attributes.get("add_offset", 0.0)))
        units = (1.0, 0.0) if variable is None else (variable.scale, variable.offset)
        named = [np.atleast_1d(attributes.get(name, np.nan)) for name in ("_FillValue", "missing_value")]
        return cls(
            steps=tuple(step for step in (packing, units) if step != (1.0, 0.0)),
            fills=tuple(fill for fills in named for fill in fills if not np.isnan(fill)),
            is_unsigned=attributes.get("_Unsigned") == "true",
        )

    def decode(self, block: npt.NDArray[Any], out: Floats | None = None, dtype: npt.DTypeLike = np.float32) -> Floats:
        """Convert stored numbers to this type, or into `out` if it is given; missing ones become NaN."""
        if self.is_unsigned:
            block = block.view(np.dtype(f"u{block.dtype.itemsize}"))
        decoded = np.empty(block.shape, dtype=dtype) if out is None else out
        few = max(1, _CACHED_VALUES * len(block) // max(1, block.size))
        for start in range(0, len(block), few):
            values = block[start : start + few]
            for scale, offset in self.steps:
                values = np.multiply(values, scale, dtype=np.float64)
                values += offset
            decoded[start : start + few] = values
        for fill in self.fills:
            missing = block == np.asarray(fill).astype(block.dtype)
            if missing.any():  # an assignment takes as long for none
                decoded[missing] = np.nan
        return decoded

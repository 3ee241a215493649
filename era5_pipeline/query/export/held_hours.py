"""Which hours of a place turned out to have values: what is missing in words, and whether there was anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.hours import as_datetime64, time_of
from era5_pipeline.query.gaps import find_gaps, gap_lines
from era5_pipeline.query.series import Series

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.query.export.export_contents import ExportContents
    from era5_pipeline.query.export.export_pieces import ExportPiece
    from era5_pipeline.query.export.piece_values import Values
    from era5_pipeline.query.gaps import Gaps


class HeldHours:
    """Adds up pieces: of a place, a bit for each hour and column."""

    def __init__(self, contents: ExportContents) -> None:
        self._contents = contents
        self._bits: dict[str, list[npt.NDArray[np.uint8]]] = {column: [] for column in contents.columns}
        self._lengths: list[int] = []
        self.has_values = False

    def add(self, piece: ExportPiece, values: Values) -> None:
        """Note which values of a piece are there; of a place, pieces come in the order of time."""
        if self._contents.place is None:
            self.has_values = self.has_values or any(not np.isnan(one).all() for one in values.values())
            return
        self._lengths.append(len(piece.hours))
        for column, found in values.items():
            there = ~np.isnan(found.reshape(-1))
            self.has_values = self.has_values or bool(there.any())
            self._bits[column].append(np.packbits(there))

    def lines(self) -> list[str]:
        """Lines that name what is missing: of a place by its hours, of a box by the ledger."""
        contents = self._contents
        if contents.place is None:
            return list(contents.lines)
        times = as_datetime64(np.arange(contents.hours.start, contents.hours.stop, dtype=np.int64))
        start, end = time_of(contents.hours.start), time_of(contents.hours.stop)
        gaps: dict[str, Gaps] = {}
        for variable in contents.variables:
            there = [
                np.unpackbits(bits, count=length).astype(np.bool_)
                for bits, length in zip(self._bits[variable.column], self._lengths, strict=True)
            ]
            values = np.where(np.concatenate(there), np.float32(0), np.float32(np.nan))
            gaps |= find_gaps(Series(times, {variable.column: values}), (variable,), start, end)
        return gap_lines(gaps)

"""What every source gives: for one month, raw files with their provenance."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from era5_pipeline.model.months import Month
from era5_pipeline.runtime.files import digest_of

if TYPE_CHECKING:
    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.netcdf.contents import Problem


@dataclass(frozen=True)
class RawFile:
    """One file as it lies on disk (netCDF, or a ZIP of netCDF)."""

    path: Path
    sha256: str
    bytes: int


@dataclass(frozen=True)
class RawMonth:
    """All files that hold something of `month`, and what was asked for.

    `variables` are the columns that the month must have, None: what the files hold; `area` the rectangle kept,
    None: all of it. `warnings` are for the user: files passed over, and why.
    """

    month: Month
    source: str
    files: tuple[RawFile, ...]
    variables: tuple[str, ...] | None = None
    area: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all files together."""
        return sum(file.bytes for file in self.files)

    @property
    def fingerprint(self) -> str:
        """The same for the same contents and request, whatever the files are called."""
        return digest_of(
            {
                "month": self.month.key,
                "source": self.source,
                "sha256": sorted(file.sha256 for file in self.files),
                "variables": self.variables,
                "area": self.area,
            }
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON value; `from_json` is the inverse."""
        value = asdict(self)
        value["month"] = self.month.key
        value["files"] = [{**asdict(file), "path": str(file.path)} for file in self.files]
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(
            month=Month.parse(value["month"]),
            source=value["source"],
            files=tuple(RawFile(Path(f["path"]), f["sha256"], f["bytes"]) for f in value["files"]),
            variables=None if value["variables"] is None else tuple(value["variables"]),
            area=value["area"],
            warnings=tuple(value["warnings"]),
        )


class Source(Protocol):
    """A door to ERA5: given a month, it provides raw files and says where they came from."""

    @property
    def name(self) -> str:
        """What the ledger calls it."""
        ...

    def fetch(self, month: Month) -> RawMonth:
        """Make the month's raw files available on local disk.

        Raises:
            InputError: if the source has nothing of the month, or what it has cannot be used.
            NotYetAvailableError: if it will have the month later.
            SourceError: if the service refuses.
            TransientError: if the service could not be reached.
            LocalDiskError: if there is no room for it.
        """
        ...

    def known(self, month: Month) -> RawMonth | None:
        """The month as `fetch` would give it, without asking a service; None: that cannot be told.

        For seeing whether anything changed. Its files need not be there any more.
        """
        ...

    def judged(self, raw: RawMonth, *, whole: bool) -> None:
        """Hear whether the files that `fetch` gave hold all hours: those of a short month are not to be given again."""
        ...

    def distrust(self, raw: RawMonth) -> None:
        """Hear that the files cannot be used, or hold what cannot be: a service is to be asked for all of it anew."""
        ...


@dataclass(frozen=True)
class Request:
    """What is asked of a source for any month."""

    variables: tuple[Variable, ...] | None = None
    area: Area | None = None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns asked for, None: what the source holds."""
        return None if self.variables is None else tuple(variable.column for variable in self.variables)

    @property
    def area_text(self) -> str | None:
        """The area as text, None: all of it."""
        return None if self.area is None else str(self.area)


@runtime_checkable
class QueuedSource(Protocol):
    """A source whose months wait in a queue: a month can be requested while another one is awaited."""

    def ask(self, month: Month) -> None:
        """Send the month's request, unless the month is here or under way; `fetch` meets what goes wrong."""
        ...


@runtime_checkable
class FolderSource(Protocol):
    """A source of the user's own files, which decide what months there are."""

    def months(self) -> tuple[Month, ...]:
        """The months that the files have something of, ascending."""
        ...

    def problems(self) -> tuple[Problem, ...]:
        """Every file that cannot be used, whatever month it was for."""
        ...

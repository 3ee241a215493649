"""Cache of what each file of a folder holds, so that a thousand months do not open a thousand files each.

An entry is valid while the file's size and modification time are unchanged. Entries are JSON files under the pipeline's
home, and may be removed at any time.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from era5_pipeline.model.errors import BadFileError
from era5_pipeline.model.variables import VARIABLES
from era5_pipeline.netcdf.archive import netcdf_files, scratch_folder
from era5_pipeline.netcdf.contents import Problem, inspect
from era5_pipeline.netcdf.recognise import claims_to_be_data, describe_other, kind_of
from era5_pipeline.runtime.files import digest_of, read_json, sha256_of, write_json

if TYPE_CHECKING:
    from pathlib import Path

# Increase the number with every change of the entries' form or of the rules by which files are inspected. A change of
# the table of variables invalidates entries too.
_FORM = [4, digest_of([(*v.names_in_files, v.param_id, *v.file_units) for v in VARIABLES])]


@dataclass(frozen=True)
class CatalogueEntry:
    """What one file holds: its columns per month, and its problems. `sha256` is None until it is needed."""

    path: str
    bytes: int
    modified_ns: int
    columns: dict[str, tuple[str, ...]]
    problems: tuple[Problem, ...]
    sha256: str | None = None

    @property
    def months(self) -> frozenset[str]:
        """Months of which the file has data or a problem."""
        return frozenset(self.columns) | {month for problem in self.problems for month in problem.months}

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON value; `from_json` is the inverse."""
        return {"form": _FORM, **asdict(self)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Convert from a JSON value of `to_json`."""
        return cls(
            path=value["path"],
            bytes=value["bytes"],
            modified_ns=value["modified_ns"],
            columns={month: tuple(columns) for month, columns in value["columns"].items()},
            problems=tuple(
                Problem(**{**problem, **{name: tuple(problem[name]) for name in ("months", "columns")}})
                for problem in value["problems"]
            ),
            sha256=value["sha256"],
        )


def _entry_of(value: Any) -> CatalogueEntry | None:  # noqa: ANN401  # JSON is any
    """The entry in a cache file; None if it is damaged, or of another form."""
    try:
        return CatalogueEntry.from_json(value) if value["form"] == _FORM else None
    except (TypeError, KeyError, AttributeError):
        return None


class Catalogue:
    """The entries, kept below `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def entry(self, path: Path, *, with_digest: bool = False) -> CatalogueEntry | None:
        """The entry of a file, made if there is no valid one; None if the file does not claim to be data.

        Raises:
            OSError: if the file cannot be read at all.
        """
        kept = self._home / "catalogue" / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"
        stat = path.stat()
        entry = _entry_of(read_json(kept))
        if entry is None or (entry.path, entry.bytes, entry.modified_ns) != (str(path), stat.st_size, stat.st_mtime_ns):
            if kind_of(path) == "other" and not claims_to_be_data(path):
                return None
            columns, problems = self._inspect(path)
            entry = CatalogueEntry(str(path), stat.st_size, stat.st_mtime_ns, columns, problems)
            write_json(kept, entry.to_json())
        if with_digest and entry.sha256 is None:
            entry = CatalogueEntry(**{**entry.__dict__, "sha256": sha256_of(path)})
            write_json(kept, entry.to_json())
        return entry

    def _inspect(self, path: Path) -> tuple[dict[str, tuple[str, ...]], tuple[Problem, ...]]:
        if kind_of(path) == "other":
            text, remedy = describe_other(path)
            return {}, (Problem(str(path), "unreadable", text, remedy),)
        columns: dict[str, set[str]] = {}
        problems: list[Problem] = []
        with scratch_folder(self._home) as scratch:
            try:
                for file in netcdf_files([path], scratch):
                    contents = inspect(file)
                    problems += contents.problems
                    for field in contents.fields:
                        for month in field.months:
                            columns.setdefault(month, set()).add(field.column)
                    if file.is_scratch:
                        file.path.unlink()
            except BadFileError as error:
                problems.append(Problem(str(path), "unreadable", error.problem, error.remedy))
        return {month: tuple(sorted(held)) for month, held in sorted(columns.items())}, tuple(problems)

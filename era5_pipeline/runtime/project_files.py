"""Files that are shipped with the project: SQL of `sql/`, and the real ERA5 files of `data/`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from era5_pipeline.model.errors import Era5Error

# --- Read the SQL files of `sql/`, by name ---


_PACKAGE = Path(__file__).parents[1]
# A wheel contains the folder inside the package; a checkout has it next to the package. The wheel's comes first,
# because files next to an installed package belong to other packages.
_FOLDERS = (_PACKAGE / "sql", _PACKAGE.parent / "sql")


@cache
def read_sql(name: str) -> str:
    """Read `sql/<name>.sql`; `name` may include the suffix."""
    file_name = Path(name).with_suffix(".sql")
    for folder in _FOLDERS:
        try:
            return (folder / file_name).read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
    raise Era5Error(
        f"sql/{file_name} is missing from this installation of era5-pipeline",
        remedy="Install the package again, from a complete checkout or wheel.",
    )


# --- Find the real ERA5 files shipped with the project: folders of `data/`, by name ---


# A wheel contains the demo's folders inside the package; a checkout has all of them next to the package. The wheel's
# are tried first, because files next to an installed package belong to other packages.
_DATA_FOLDERS = (_PACKAGE / "data", _PACKAGE.parent / "data")


def data_folder(name: str) -> Path:
    """The folder `data/<name>`."""
    for folder in _DATA_FOLDERS:
        if (folder / name).is_dir():
            return folder / name
    raise Era5Error(
        f"data/{name} is missing from this installation of era5-pipeline",
        remedy="Install the package again, from a complete checkout or wheel.",
    )

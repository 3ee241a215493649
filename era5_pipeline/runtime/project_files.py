"""Files that are shipped with the project: SQL of `sql/`, and the real ERA5 files of `data/`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import Era5Error

if TYPE_CHECKING:
    from era5_pipeline.model.dataset import Dataset

_PACKAGE = Path(__file__).parents[1]
# A wheel contains the folders inside the package; a checkout has them next to the package. The wheel's come first,
# because files next to an installed package belong to other packages.
_FOLDERS = (_PACKAGE, _PACKAGE.parent)


@cache
def read_sql(name: str, dataset: Dataset | None = None) -> str:
    """Read `sql/<name>.sql`, with the names of the data set (`Dataset.sql`); `name` may include the suffix.

    Only statements about the server itself need no data set.
    """
    text = _shipped(f"sql/{Path(name).with_suffix('.sql')}").read_text(encoding="utf-8")
    return text if dataset is None else dataset.sql(text)


def data_folder(name: str) -> Path:
    """The folder `data/<name>`; a wheel has only those of the demo."""
    return _shipped(f"data/{name}")


def _shipped(name: str) -> Path:
    for folder in _FOLDERS:
        if (folder / name).exists():
            return folder / name
    raise Era5Error(
        f"{name} is missing from this installation of era5-pipeline",
        remedy="Install the package again, from a complete checkout or wheel.",
    )

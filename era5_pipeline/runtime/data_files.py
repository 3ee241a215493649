"""Find the real ERA5 files that are shipped with the project: folders of `data/`, by name.

Here: finding them. Not here: their origin and attribution (`data/README.md`), or reading them (`sources.files`).
"""

from __future__ import annotations

from pathlib import Path

from era5_pipeline.model.errors import Era5Error

_PACKAGE = Path(__file__).parents[1]
# A wheel contains the demo's folders inside the package; a checkout has all of them next to the package. The wheel's
# are tried first, because files next to an installed package belong to other packages.
_FOLDERS = (_PACKAGE / "data", _PACKAGE.parent / "data")


def data_folder(name: str) -> Path:
    """The folder `data/<name>`.

    Raises:
        Era5Error: if the installation has none.
    """
    for folder in _FOLDERS:
        if (folder / name).is_dir():
            return folder / name
    raise Era5Error(
        f"data/{name} is missing from this installation of era5-pipeline",
        remedy="Install the package again, from a complete checkout or wheel.",
    )

"""Read the SQL files of `sql/`, by name.

Here: finding and reading them. Not here: inserting values (`psycopg.sql`) or executing them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from era5_pipeline.model.errors import Era5Error

_PACKAGE = Path(__file__).parents[1]
# A wheel contains the folder inside the package; a checkout has it next to the package. The wheel's is tried first,
# because files next to an installed package belong to other packages.
_FOLDERS = (_PACKAGE / "sql", _PACKAGE.parent / "sql")


@cache
def read_sql(name: str) -> str:
    """Read `sql/<name>.sql`; `name` may include the suffix.

    Raises:
        Era5Error: if the installation has no such file.
    """
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

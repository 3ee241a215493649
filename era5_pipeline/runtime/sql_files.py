"""Where the SQL is: the files of `sql/`, by name.

Here: finding and reading them. Not here: filling them in (`psycopg.sql`) or running them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from era5_pipeline.model.errors import Era5Error

_PACKAGE = Path(__file__).parents[1]
# A wheel carries the folder inside the package; a checkout has it beside the package. The wheel's comes
# first, because what lies beside an installed package belongs to others.
_FOLDERS = (_PACKAGE / "sql", _PACKAGE.parent / "sql")


@cache
def read_sql(name: str) -> str:
    """Read the text of `sql/<name>.sql`; `name` may also be given with its ending.

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

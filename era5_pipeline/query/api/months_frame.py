"""The months that the table holds, by its ledger, as a table of pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from era5_pipeline.warehouse.ledger import read_ledger

if TYPE_CHECKING:
    import pandas as pd
    import psycopg


def read_months_frame(connection: psycopg.Connection[Any]) -> pd.DataFrame:
    """A row for each month, as `Database.months` documents them."""
    import pandas as pd  # noqa: PLC0415  # takes half a second, which `import era5_pipeline` does without

    held = read_ledger(connection)
    rows = {
        "state": pd.array([one.state for one in held], dtype="str"),
        "locations": pd.array([one.locations for one in held], dtype="int64"),
        "hours": pd.array([one.hours for one in held], dtype="int64"),
        "hours_expected": pd.array([one.month.hours for one in held], dtype="int64"),
        "rows": pd.array([one.rows for one in held], dtype="int64"),
        "columns": pd.array([",".join(one.column_names) for one in held], dtype="str"),
        "source": pd.array([",".join(one.sources) for one in held], dtype="str"),
        "version": pd.array([one.version or "" for one in held], dtype="str"),
        "loaded_at": pd.Series([one.loaded_at for one in held], dtype="datetime64[us, UTC]").array,
    }
    return pd.DataFrame(rows, index=pd.PeriodIndex([str(one.month) for one in held], freq="M", name="month"))

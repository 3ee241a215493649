"""The backend `era5` of xarray: `xr.open_dataset("postgresql://...", engine="era5")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray.backends import BackendEntrypoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    import xarray as xr

    from era5_pipeline.model.question import AskedArea, AskedTime


class Era5Backend(BackendEntrypoint):
    """Opens the table of a warehouse as a dataset, with values read on demand.

    With `chunks={}`, arrays are Dask's, with a chunk for each month. `chunks=None` reads when values are used.
    """

    description = "Open the warehouse of era5-pipeline by its URL; None: that of the settings"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "area", "start", "end", "columns", "dataset")

    def open_dataset(  # type: ignore[override]  # like every backend, it has its own parameters
        self,
        filename_or_obj: str | None,
        *,
        drop_variables: str | Iterable[str] | None = None,
        area: AskedArea | None = None,
        start: AskedTime | None = None,
        end: AskedTime | None = None,
        columns: str | Iterable[str] | None = None,
        dataset: str | None = None,
    ) -> xr.Dataset:
        """Open the dataset that `Database.dataset` documents; closing it closes the database.

        `dataset` is the data set by name, as for `era5.open`.
        """
        from era5_pipeline.api.database import open_database  # noqa: PLC0415  # xarray imports this module

        database = open_database(filename_or_obj, dataset=dataset)
        try:
            opened = database.dataset(area=area, start=start, end=end, columns=columns, chunked=False)
        except BaseException:
            database.close()
            raise
        dropped = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
        opened = opened.drop_vars(dropped, errors="ignore")
        opened.set_close(database.close)
        return opened

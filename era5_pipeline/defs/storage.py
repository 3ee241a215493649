"""Dagster's own storage: dagster-postgres in a second database on the warehouse's server.

`dagster.yaml` cannot start a server, and an `env:` in it makes every command fail where the variable is missing. This
class finds the server as the pipeline does, from ERA5_DATABASE_URL or the embedded one, so that `dg launch`, the daemon
and `era5` share one history without any setting. No URL enters the instance's serialized form, so no password does.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

from dagster_postgres import DagsterPostgresStorage

from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.postgres.connect import dagster_url, open_warehouse

if TYPE_CHECKING:
    from dagster._serdes import ConfigurableClassData

_held = ExitStack()


@cache
def _url(settings: Settings) -> str:
    """The URL of Dagster's database. An embedded server then runs until this process ends, as the instance does."""
    import atexit  # noqa: PLC0415  # registered on first use, so that it runs before what was registered at import

    atexit.register(_held.close)
    return dagster_url(_held.enter_context(open_warehouse(settings, create=True)), settings)


class WarehouseStorage(DagsterPostgresStorage):
    """dagster-postgres, with the URL taken from the pipeline's settings."""

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """Nothing to configure."""
        return {}

    @classmethod
    def from_config_value(
        cls,
        inst_data: ConfigurableClassData | None,
        config_value: dict[str, Any],  # type: ignore[override]  # it has no keys
    ) -> WarehouseStorage:
        """Made by Dagster when it loads an instance.

        Raises:
            WarehouseError: if there is no server to be had.
        """
        return cls(postgres_url=_url(read_settings()), inst_data=inst_data)

    # Dagster would rebuild the three storages from this class's empty configuration: it is to use this one.
    @property
    def event_storage_data(self) -> None:
        """None: there is no event storage without this one."""

    @property
    def run_storage_data(self) -> None:
        """None: there is no run storage without this one."""

    @property
    def schedule_storage_data(self) -> None:
        """None: there is no schedule storage without this one."""

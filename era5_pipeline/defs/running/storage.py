"""Dagster's own storage: dagster-postgres in a second database on the warehouse's server.

`dagster.yaml` cannot start a server, and an `env:` in it makes every command fail if the variable is not set. So this
class finds the server like the rest of the pipeline, from ERA5_DATABASE_URL or as the embedded one: `dg launch`, the
daemon and `era5` share one history without further settings. The instance's serialized form contains no URL, and so no
password.
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

_until_exit = ExitStack()


@cache
def _url(settings: Settings) -> str:
    """The URL of Dagster's database. An embedded server is kept running until this process ends."""
    import atexit  # noqa: PLC0415  # registered on first use, so that it runs before what was registered at import

    atexit.register(_until_exit.close)
    return dagster_url(_until_exit.enter_context(open_warehouse(settings, create=True)), settings)


class WarehouseStorage(DagsterPostgresStorage):
    """dagster-postgres with the URL from the pipeline's settings."""

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """No configuration."""
        return {}

    @classmethod
    def from_config_value(
        cls,
        inst_data: ConfigurableClassData | None,
        config_value: dict[str, Any],  # type: ignore[override]  # it has no keys
    ) -> WarehouseStorage:
        """Create the storage; Dagster calls this when it loads an instance.

        Raises:
            WarehouseError: if no server is reachable.
        """
        return cls(postgres_url=_url(read_settings()), inst_data=inst_data)

    # With a value here, Dagster would build the three storages from this class's empty configuration.
    @property
    def event_storage_data(self) -> None:
        """None: this object is the event storage."""

    @property
    def run_storage_data(self) -> None:
        """None: this object is the run storage."""

    @property
    def schedule_storage_data(self) -> None:
        """None: this object is the schedule storage."""

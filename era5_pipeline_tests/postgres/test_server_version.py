"""The server's version: found, supported or too old."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import ServerUnsuitableError
from era5_pipeline.postgres.server_version import OLDEST_VERSION, describe_server, require_supported
from era5_pipeline.warehouse.schema import ensure_schema

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.servers import Host


def test_the_servers_version_and_extension(empty_warehouse: Warehouse, host: Host) -> None:
    with empty_warehouse.connect() as connection:
        plain = describe_server(connection)
        assert (plain.timescaledb, plain.license) == (None, None)
        assert str(plain) == f"PostgreSQL {plain.version_text}"
        ensure_schema(connection)
        found = describe_server(connection)
    assert found.version_text.startswith(host.version)
    assert found.version == int(found.version_text.partition(".")[0])
    assert (found.timescaledb, found.license) == (host.timescaledb, host.license)


@pytest.mark.parametrize(
    ("version", "named"), [(130014, "13"), (90624, "9"), (OLDEST_VERSION * 10000 - 1, str(OLDEST_VERSION - 1))]
)
def test_versions_that_are_too_old_are_rejected(version: int, named: str) -> None:
    require_supported(OLDEST_VERSION * 10000, "postgresql://h/d")
    with pytest.raises(
        ServerUnsuitableError, match=rf"^postgresql://h/d is PostgreSQL {named}\nPostgreSQL {OLDEST_VERSION} or later"
    ):
        require_supported(version, "postgresql://h/d")

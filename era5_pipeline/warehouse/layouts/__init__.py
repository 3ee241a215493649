"""The layouts of the table `weather`, chosen by the server's features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.warehouse.layouts.columnstore import Columnstore
from era5_pipeline.warehouse.layouts.hypertable import CALENDAR_HYPERTABLE, CHUNKED_HYPERTABLE
from era5_pipeline.warehouse.layouts.layout import Layout
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions

if TYPE_CHECKING:
    from era5_pipeline.postgres.server_version import Server

__all__ = ["LAYOUTS", "Layout", "layout_for"]

LAYOUTS: dict[str, Layout] = {
    layout.name: layout for layout in (MonthPartitions(), CHUNKED_HYPERTABLE, CALENDAR_HYPERTABLE, Columnstore())
}


def layout_for(server: Server) -> Layout:
    """Choose the layout of a new table on this server."""
    if server.timescaledb is None:
        return LAYOUTS[MonthPartitions.name]
    return LAYOUTS[Columnstore.name] if server.license == "timescale" else CHUNKED_HYPERTABLE

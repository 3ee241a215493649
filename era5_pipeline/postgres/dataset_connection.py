"""Connections that know whose tables they are for: the data set by which statements name tables, schema and locks."""

from __future__ import annotations

from typing import Any

import psycopg

from era5_pipeline.model.dataset import ERA5, Dataset


class DatasetConnection(psycopg.Connection[Any]):
    """A connection to the tables of one data set; those of others in the same database are not its business."""

    dataset: Dataset = ERA5


def dataset_of(connection: psycopg.Connection[Any]) -> Dataset:
    """The data set of a connection; ERA5 for one of plain psycopg."""
    return connection.dataset if isinstance(connection, DatasetConnection) else ERA5


def connect_for(dataset: Dataset, conninfo: str, **options: Any) -> DatasetConnection:  # noqa: ANN401  # those of psycopg
    """Connect as `psycopg.connect` does, for the tables of the data set."""
    connection = DatasetConnection.connect(conninfo, **options)
    connection.dataset = dataset
    return connection

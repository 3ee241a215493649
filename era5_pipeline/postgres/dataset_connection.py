"""Connections that know whose tables they are for: the data set by which statements name tables, schema and locks."""

from __future__ import annotations

from typing import Any

import psycopg

from era5_pipeline.model.dataset import DATASETS, ERA5, Dataset


class DatasetConnection(psycopg.Connection[Any]):
    """A connection to the tables of one data set; those of others in the same database are not its business."""

    dataset: Dataset = ERA5


def dataset_of(connection: psycopg.Connection[Any]) -> Dataset:
    """The data set of a connection; ERA5 for one of plain psycopg."""
    return connection.dataset if isinstance(connection, DatasetConnection) else ERA5


def turn_to(connection: psycopg.Connection[Any], dataset: Dataset) -> None:
    """Let the statements that follow name the tables of this data set, in a connection that serves several."""
    assert isinstance(connection, DatasetConnection)  # noqa: S101  # as all that a warehouse opens
    connection.dataset = dataset


def datasets_in(connection: psycopg.Connection[Any]) -> tuple[Dataset, ...]:
    """The data sets of which the database has tables; needs no privilege on them."""
    rows = connection.execute(
        "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relname = 'ledger'"
    ).fetchall()
    schemas = {schema for (schema,) in rows}
    return tuple(dataset for dataset in DATASETS.values() if dataset.schema in schemas)


def connect_for(dataset: Dataset, conninfo: str, **options: Any) -> DatasetConnection:  # noqa: ANN401  # those of psycopg
    """Connect as `psycopg.connect` does, for the tables of the data set."""
    connection = DatasetConnection.connect(conninfo, **options)
    connection.dataset = dataset
    return connection

"""Whether the server can read a file of this machine, which COPY from a file and pg_bulkload need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from pathlib import Path


def server_reads(connection: psycopg.Connection[Any], path: Path) -> bool:
    """Whether the server sees this file, with its size, under the same path; False too where this user may not ask.

    Not within a transaction that must go on: a refusal aborts it.
    """
    path.chmod(0o644)
    try:
        row = connection.execute("SELECT size FROM pg_stat_file(%s, true)", (str(path),)).fetchone()
    except psycopg.Error:
        connection.rollback()
        return False
    connection.rollback()
    return row is not None and row[0] == path.stat().st_size

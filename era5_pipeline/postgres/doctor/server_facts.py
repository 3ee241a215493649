"""Facts about a server and its machine that the advice depends on: read once, without changing anything."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil as _psutil
from psycopg.rows import class_row, dict_row

from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.postgres.server_version import describe_server

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    import psycopg

    from era5_pipeline.postgres.server_version import Server

# --- Memory, cores and disk of the server's machine: measured if it is this machine, else unknown ---


psutil: Any = _psutil  # psutil has no type annotations


@dataclass(frozen=True)
class Machine:
    """Resources of the server's machine; None: unknown. `free_bytes` is for the disk of the write-ahead log."""

    memory_bytes: int | None
    cores: int | None
    free_bytes: int | None

    @classmethod
    def here(cls, folder: Path | None) -> Machine:
        """Measure this machine (or the container's limits) and the free disk of `folder`."""
        memory = min([int(psutil.virtual_memory().total), *_cgroup_memory_limits()])
        return cls(memory, os.cpu_count() or 1, None if folder is None else shutil.disk_usage(folder).free)


def is_session_here(pid: int, user: str, database: str, client_port: int | None) -> bool:
    """Return True if the process `pid` of a session's server runs on this machine.

    The address cannot tell: a loopback port may lead to a tunnel or a container. The process can, if it is a PostgreSQL
    process whose title names the same user, database and client port (None: a Unix socket).
    """
    try:
        process = psutil.Process(pid)
        name, title = str(process.name()), " ".join(process.cmdline())
    except psutil.Error:  # it does not exist, or may not be inspected
        return False
    client = "[local]" if client_port is None else f"({client_port})"
    return name == "postgres" and f"{user} {database} " in title and client in title


def log_folder(pid: int, data_folder: str | None) -> Path | None:
    """Return the folder of the write-ahead log of the server with process `pid` on this machine; None: inaccessible.

    `data_folder` is the server's own path of its data folder, if known.
    """
    # The data folder is the working directory of every process of a server; /proc finds it even if the server sees
    # other paths than this process. That needs the server's user or root.
    folders = [Path(f"/proc/{pid}/cwd"), *([Path(data_folder)] if data_folder else [])]
    for folder in (path for parent in folders for path in (parent / "pg_wal", parent)):
        with suppress(OSError):
            shutil.disk_usage(folder)
            return folder
    return None


def _cgroup_memory_limits() -> list[int]:
    """Read the memory limits of this container, if any (control groups version 2 and 1)."""
    limits = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")))
    return limits


# --- Facts about a server that the advice on its settings depends on: read once, without changing anything ---


_CHECKPOINTER_VERSION = 17  # since then, checkpoints have their own view


@dataclass(frozen=True)
class ServerSetting:
    """A row of pg_settings: `setting` is in `unit`, `shown` as in postgresql.conf.

    `in_file` is the value in the configuration files, `sourcefile` one of them; both None if hidden from this user.
    `alterable`: whether this user may change it with ALTER SYSTEM.
    """

    name: str
    setting: str
    shown: str
    unit: str | None
    context: str
    enumvals: list[str] | None
    source: str
    sourcefile: str | None
    pending_restart: bool
    alterable: bool
    in_file: str | None


@dataclass(frozen=True)
class CheckpointCounts:
    """Checkpoints triggered by checkpoint_timeout and by anything else, and since when they are counted."""

    timed: int
    requested: int
    since: datetime | None


@dataclass(frozen=True)
class OwnSession:
    """This session as the server sees it; `client_port` is None for a Unix socket."""

    pid: int
    user: str
    database: str
    client_port: int | None
    is_superuser: bool = False


@dataclass(frozen=True)
class ServerFacts:
    """The result of `read_server_facts`.

    `settings` are the requested ones that exist; `pending_restart` covers all settings. `preloaded` are the libraries
    in shared_preload_libraries. `data_folder` and `preloaded` are None if hidden from this user.
    `timescaledb_version` is that of the installed extension or, without it, of the one that would be created.
    """

    server: Server
    session: OwnSession
    settings: dict[str, ServerSetting]
    pending_restart: tuple[str, ...]
    checkpoints: CheckpointCounts
    data_folder: str | None
    preloaded: tuple[str, ...] | None
    timescaledb_offered: bool
    timescaledb_preloaded: bool
    is_standby: bool
    replicas: int
    slots: tuple[str, ...]
    alter_system_allowed: bool
    timescaledb_version: str | None = None
    timescaledb_license: str | None = None


def read_server_facts(connection: psycopg.Connection[Any], names: Collection[str]) -> ServerFacts:
    """Read the facts, and the settings with these names."""
    with server_errors("reading the server's settings"), connection.transaction():
        # So that not even a mistake in these queries can change anything.
        connection.execute("SET TRANSACTION READ ONLY")
        # Without an encoding (SQL_ASCII databases), psycopg would return bytes instead of text.
        connection.execute("SET LOCAL client_encoding = 'UTF8'")
        server = describe_server(connection)
        row = _read_row(connection)
        return ServerFacts(
            server=server,
            session=OwnSession(
                row["pid"], row["session_user"], row["database"], row["client_port"], row["is_superuser"]
            ),
            settings=_settings(connection, names),
            pending_restart=tuple(row["pending"]),
            checkpoints=_checkpoints(connection, server),
            data_folder=row["data_folder"],
            preloaded=None if row["preloaded"] is None else tuple(row["preloaded"]),
            timescaledb_offered=row["offered"],
            timescaledb_preloaded=row["timescaledb"],
            is_standby=row["standby"],
            replicas=row["replicas"],
            slots=tuple(row["slots"]),
            alter_system_allowed=row["allowed"],
            timescaledb_version=row["timescaledb_version"],
            timescaledb_license=row["timescaledb_license"],
        )


def _read_row(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    with connection.cursor(row_factory=dict_row) as cursor:
        # pg_settings omits what the user may not see; current_setting would fail.
        cursor.execute(
            """
            SELECT pg_backend_pid() AS pid, session_user::text AS session_user, current_database()::text AS database,
                CASE WHEN inet_server_addr() IS NOT NULL THEN inet_client_port() END AS client_port,
                coalesce((SELECT rolsuper FROM pg_roles WHERE rolname = session_user), false) AS is_superuser,
                (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS data_folder,
                (SELECT ARRAY(SELECT trim(both ' "' from part) FROM unnest(string_to_array(setting, ',')) part
                        WHERE trim(part) <> '')
                    FROM pg_settings WHERE name = 'shared_preload_libraries') AS preloaded,
                EXISTS (SELECT FROM pg_available_extensions WHERE name = 'timescaledb') AS offered,
                EXISTS (SELECT FROM pg_settings WHERE name LIKE 'timescaledb.%') AS timescaledb,
                (SELECT coalesce(installed_version, default_version) FROM pg_available_extensions
                    WHERE name = 'timescaledb') AS timescaledb_version,
                current_setting('timescaledb.license', true) AS timescaledb_license,
                ARRAY(SELECT name FROM pg_settings WHERE pending_restart ORDER BY name) AS pending,
                pg_is_in_recovery() AS standby,
                (SELECT count(*) FROM pg_stat_replication) AS replicas,
                ARRAY(SELECT slot_name::text FROM pg_replication_slots ORDER BY slot_name) AS slots,
                coalesce(current_setting('allow_alter_system', true), 'on') = 'on' AS allowed
            """
        )
        (row,) = cursor.fetchall()
    return row


def _settings(connection: psycopg.Connection[Any], names: Collection[str]) -> dict[str, ServerSetting]:
    may_read_files = connection.execute(
        "SELECT has_table_privilege('pg_file_settings', 'SELECT') "
        "AND has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')"
    ).fetchone() == (True,)
    in_files = dict(
        # If a name is set several times, the last line wins.
        connection.execute("SELECT lower(name), setting FROM pg_file_settings ORDER BY seqno").fetchall()
        if may_read_files
        else ()
    )
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(
            "SELECT name, setting, current_setting(name) AS shown, unit, context, enumvals, source, sourcefile, "
            "pending_restart, has_parameter_privilege(name, 'ALTER SYSTEM') AS alterable "
            "FROM pg_settings WHERE name = ANY(%s)",
            (list(names),),
        )
        return {row["name"]: ServerSetting(**row, in_file=in_files.get(row["name"].lower())) for row in cursor}


def _checkpoints(connection: psycopg.Connection[Any], server: Server) -> CheckpointCounts:
    with connection.cursor(row_factory=class_row(CheckpointCounts)) as cursor:
        if server.version >= _CHECKPOINTER_VERSION:
            cursor.execute(
                "SELECT num_timed AS timed, num_requested AS requested, stats_reset AS since FROM pg_stat_checkpointer"
            )
        else:
            cursor.execute(
                "SELECT checkpoints_timed AS timed, checkpoints_req AS requested, stats_reset AS since "
                "FROM pg_stat_bgwriter"
            )
        (row,) = cursor.fetchall()
    return row

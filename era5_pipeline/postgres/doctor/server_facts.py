"""Facts about a server that the advice on its settings depends on: read once, changing nothing.

Here: the queries, which any user may run; what this user may not see is None. Not here: what follows from the facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.rows import class_row, dict_row

from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.postgres.server_version import describe_server

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    import psycopg

    from era5_pipeline.postgres.server_version import Server

_CHECKPOINTER_VERSION = 17  # from here on, checkpoints have a view of their own


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
    """How many checkpoints were started by checkpoint_timeout, how many by anything else, and since when."""

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
    """What `read_server_facts` has read.

    `settings` are the requested ones that exist; `pending_restart` are of all settings. `preloaded` are the libraries
    in shared_preload_libraries. `data_folder` and `preloaded` are None if hidden from this user.
    `timescaledb_version` is that of the extension in this database or, without it, the one that would be created.
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
    """Read the facts, and the settings of these names.

    Raises:
        TransientError, WarehouseError: if it does not answer.
    """
    with server_errors("reading the server's settings"), connection.transaction():
        # In such a transaction, not even a mistake in these queries changes anything.
        connection.execute("SET TRANSACTION READ ONLY")
        # From a database without an encoding (SQL_ASCII), psycopg would return bytes instead of text.
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
        # pg_settings leaves out what the user may not see, where current_setting would fail.
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
        # If a name is set several times, the last line is effective.
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

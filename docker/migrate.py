"""Prepare the database for the other services: tables, roles, roles that log in, and the pools of Dagster.

The service `migrate` of compose.yaml runs this as the database's superuser, at each start. Running it again changes
nothing but passwords whose files have changed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import sql

from era5_pipeline.defs.instance.open_instance import open_instance
from era5_pipeline.model.errors import Era5Error
from era5_pipeline.model.settings import read_settings
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.postgres.roles import READER_SETTINGS, Roles
from era5_pipeline.postgres.urls import database_of

if TYPE_CHECKING:
    import psycopg

SECRETS = Path("/run/secrets")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _let_log_in(connection: psycopg.Connection, name: str, group: str) -> None:
    """Create the role, a member of the group, if it is missing; set its password from its file."""
    password = (SECRETS / f"{name}_password").read_text(encoding="utf-8").strip()
    # A hash, as of psql's \password: a password in a statement may be written to the server's log.
    hashed = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    role, found = sql.Identifier(name), "SELECT FROM pg_roles WHERE rolname = %s"
    if connection.execute(found, (name,)).fetchone() is None:
        connection.execute(sql.SQL("CREATE ROLE {}").format(role))
    connection.execute(sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(hashed)))
    connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), role))


def main() -> None:
    """Run all steps.

    Raises:
        SystemExit: if one fails, after its message.
    """
    made = subprocess.run(["era5", "db", "init", "--roles"], stdout=subprocess.PIPE, text=True, check=False)  # noqa: S607
    _say(made.stdout.partition("\n\n")[0])  # then come the statements for roles that log in, which follow here
    if made.returncode:
        raise SystemExit(made.returncode)
    settings, groups = read_settings(), Roles.named()
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        database = sql.Identifier(database_of(warehouse.url))
        with connection.transaction():
            _let_log_in(connection, "loader", groups.loader)
            _let_log_in(connection, "reader", groups.reader)
            for name, value in READER_SETTINGS.items():
                connection.execute(
                    sql.SQL("ALTER ROLE reader IN DATABASE {} SET {} = {}").format(
                        database, sql.Identifier(name), sql.Literal(value)
                    )
                )
    with open_instance(settings.home):
        pass  # creates the pools
    _say("roles that log in: loader, reader; pools of Dagster: there")


if __name__ == "__main__":
    try:
        main()
    except Era5Error as error:
        sys.stderr.write(f"migrate: {error}\n")
        raise SystemExit(error.exit_code) from None

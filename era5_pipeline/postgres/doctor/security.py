"""Findings about who can do or read too much, and about versions of TimescaleDB with known faults.

Here: findings from the facts (`server_facts`), and from the modes of files on this machine. Not here: settings
(`findings`), or the roles themselves (`roles`).
"""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING

from dotenv import dotenv_values

from era5_pipeline.model.errors import UsageError
from era5_pipeline.postgres.doctor.findings import Finding
from era5_pipeline.postgres.urls import url_parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from era5_pipeline.postgres.doctor.server_facts import ServerFacts

# The first release without the faults that `_COLUMNSTORE_FAULTS` names.
SOUND_TIMESCALEDB = (2, 29, 2)
_COLUMNSTORE_FAULTS = (
    (
        (2, 28, 3),
        "a DELETE by a list with NULL removes more rows than it should (TimescaleDB's issue 10129, mended in 2.28.3)",
    ),
    (SOUND_TIMESCALEDB, "some queries give wrong results or lack rows (9921, 10423, in 2.29.2)"),
)
_KEYS_IN_ENV = ("CDSAPI_KEY",)
_URLS_IN_ENV = ("ERA5_DATABASE_URL", "ERA5_DAGSTER_DATABASE_URL")


def security_findings(facts: ServerFacts, *, is_embedded: bool) -> Iterator[Finding]:
    """Findings about the connecting user and the version of TimescaleDB.

    The embedded server has a single user, its administrator, and is not reported.
    """
    if facts.session.is_superuser and not is_embedded:
        yield Finding(
            "warning",
            f"the user {facts.session.user} of ERA5_DATABASE_URL is a superuser: a mistake, or whoever finds the URL, "
            "can destroy every database of the server and run programs on its machine",
            "Run era5 db init --roles once with this URL, then the statements it prints; use the URL of a loader or "
            "reader from then on.",
        )
    yield from _timescaledb(facts)


def _timescaledb(facts: ServerFacts) -> Iterator[Finding]:
    version = facts.timescaledb_version
    number = _number(version)
    if number is None or number >= SOUND_TIMESCALEDB or not facts.timescaledb_preloaded:
        return
    sound = ".".join(map(str, SOUND_TIMESCALEDB))
    if facts.timescaledb_license == "apache":
        yield Finding(
            "note",
            f"this is TimescaleDB {version}; releases before {sound} have faults in the columnstore, which the Apache "
            "edition does not have",
            f"Upgrade to {sound} or later before a change to the Community edition.",
        )
        return
    # The edition is unknown before the extension is created: the best time to upgrade.
    faults = "; ".join(text for mended_in, text in _COLUMNSTORE_FAULTS if number < mended_in)
    yield Finding(
        "warning",
        f"this is TimescaleDB {version}; in releases before {sound}, in the Community edition's columnstore, {faults}",
        f"Install {sound} or later on the server, restart it, then run in each database, in a new session of psql -X: "
        "ALTER EXTENSION timescaledb UPDATE;",
    )


def _number(version: str | None) -> tuple[int, ...] | None:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version or "")
    return None if found is None else tuple(int(part or 0) for part in found.groups())


def file_findings(key_files: Iterable[Path], env_file: Path) -> Iterator[Finding]:
    """Files with a key or password that every user of this machine can read: `env_file` only if it holds one."""
    for path in key_files:
        if _all_may_read(path):
            yield _readable(path, "the key of the Climate Data Store")
    if _all_may_read(env_file) and (secrets := _secrets_in(env_file)):
        yield _readable(env_file, f"secrets ({', '.join(secrets)})")


def _readable(path: Path, what: str) -> Finding:
    return Finding(
        "warning", f"every user of this machine can read {path}, which holds {what}", f"Run: chmod go-rwx {path}"
    )


def _all_may_read(path: Path) -> bool:
    """Whether every user of the machine can read the file: by its own permissions and those of all folders above."""
    try:
        whole = path.resolve(strict=True)
        return (
            whole.is_file()
            and bool(whole.stat().st_mode & stat.S_IROTH)
            and all(folder.stat().st_mode & stat.S_IXOTH for folder in whole.parents)
        )
    except OSError:  # there is none, or even this user cannot look
        return False


def _secrets_in(env_file: Path) -> list[str]:
    """The names of settings in the file that are a key, or a URL with a password."""
    try:
        values = dotenv_values(env_file)
    except (OSError, UnicodeDecodeError):
        return []
    keys = [name for name in _KEYS_IN_ENV if values.get(name)]
    return keys + [name for name in _URLS_IN_ENV if _has_password(values.get(name) or "")]


def _has_password(url: str) -> bool:
    try:
        return "password" in url_parameters(url)
    except UsageError:  # it cannot be read as a URL: a password may be anywhere in it
        return bool(url)

"""Tests of `postgres/doctor/findings`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.postgres.doctor.advice import Advice, Profile, advise
from era5_pipeline.postgres.doctor.comparison import ComparedSetting, compare
from era5_pipeline.postgres.doctor.diagnosis import diagnose
from era5_pipeline.postgres.doctor.findings import (
    SETTINGS_OF_FINDINGS,
    Finding,
    file_findings,
    list_findings,
    security_findings,
)
from era5_pipeline.postgres.doctor.server_facts import CheckpointCounts, Machine, OwnSession, ServerFacts, ServerSetting
from era5_pipeline.postgres.server_version import Server
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.servers import fresh_role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.servers import Host

GB = 1 << 30
MACHINE = Machine(16 * GB, 4, 100 * GB)
PLAIN = Server(17, "17.2", None, None)


def setting(name: str, value: str, **more: object) -> ServerSetting:
    of_default = ServerSetting(
        name=name,
        setting=value,
        shown=value,
        unit=None,
        context="postmaster",
        enumvals=None,
        source="default",
        sourcefile=None,
        pending_restart=False,
        alterable=True,
        in_file=None,
    )
    return replace(of_default, **more)  # type: ignore[arg-type]


SETTINGS = (
    setting("max_wal_size", "1024", unit="MB", context="sighup", shown="1GB"),
    setting("autovacuum", "on", context="sighup"),
    setting("track_counts", "on", context="superuser"),
    setting("synchronous_commit", "off", context="user"),
    setting("max_wal_senders", "10"),
    setting("archive_mode", "off", enumvals=["always", "on", "off"]),
    setting("wal_level", "replica", enumvals=["minimal", "replica", "logical"]),
    setting("fsync", "on", context="sighup"),
    setting("full_page_writes", "on", context="sighup"),
)
SERVER = ServerFacts(
    server=PLAIN,
    session=OwnSession(1, "anna", "era5", None),
    settings={setting.name: setting for setting in SETTINGS},
    pending_restart=(),
    checkpoints=CheckpointCounts(50, 3, datetime(2026, 1, 1, tzinfo=UTC)),
    data_folder=None,
    preloaded=(),
    timescaledb_offered=False,
    timescaledb_preloaded=False,
    is_standby=False,
    replicas=0,
    slots=(),
    alter_system_allowed=True,
)


def having(*changed: ServerSetting) -> ServerFacts:
    return replace(SERVER, settings=SERVER.settings | {setting.name: setting for setting in changed})


def rows_of(facts: ServerFacts) -> tuple[ComparedSetting, ...]:
    return compare(advise("reckless", MACHINE), facts)


def findings(facts: ServerFacts, profile: Profile = "safe") -> tuple[Finding, ...]:
    return list_findings(facts, rows_of(facts), profile)


def warnings(facts: ServerFacts, profile: Profile = "safe") -> list[Finding]:
    return [finding for finding in findings(facts, profile) if finding.severity == "warning"]


def verdicts(facts: ServerFacts) -> dict[str, str]:
    return {row.name: row.verdict for row in rows_of(facts)}


def test_a_well_configured_server_gets_only_a_note_about_bulk() -> None:
    assert warnings(SERVER) == []
    assert warnings(SERVER, "bulk") == []
    (note,) = findings(SERVER)
    assert "max_wal_senders=0, wal_level=minimal" in note.text
    assert findings(SERVER, "bulk") == ()


def test_a_standby_gets_a_warning_and_keeps_its_log() -> None:
    standby = replace(SERVER, is_standby=True)
    assert "standby" in warnings(standby)[0].text
    assert verdicts(standby)["wal_level"] == "held back"


@pytest.mark.parametrize(
    "facts", [replace(SERVER, replicas=2), replace(SERVER, slots=("east", "o_west"))], ids=["replicas", "slots"]
)
def test_replicas_and_slots_hold_back_the_minimal_log(facts: ServerFacts) -> None:
    held = {name for name, verdict in verdicts(facts).items() if verdict == "held back"}
    assert held == {"max_wal_senders", "wal_level"}
    (warning,) = warnings(facts, "bulk")
    assert "would end them" in warning.text
    assert ("2 connected" if facts.replicas else "east, o_west") in warning.text
    assert ("pg_drop_replication_slot('o_west')" in warning.remedy) is bool(facts.slots)
    assert warnings(facts, "safe") == []


def test_the_minimal_log_is_held_back_if_its_requirements_cannot_be_met() -> None:
    # As in a container that gets settings as arguments: wal_level alone would keep the server from starting.
    facts = having(setting("max_wal_senders", "10", source="command line"))
    assert verdicts(facts)["max_wal_senders"] == "elsewhere"
    assert verdicts(facts)["wal_level"] == "held back"
    texts = " ".join(warning.text for warning in warnings(facts, "bulk"))
    assert "max_wal_senders = 10 is set by the server's command line" in texts
    assert "belong together" in texts


def test_a_profile_that_would_end_the_archive_warns() -> None:
    archiving = having(setting("archive_mode", "always", enumvals=["always", "on", "off"]))
    assert warnings(archiving) == []
    (warning,) = warnings(archiving, "bulk")
    assert "archive_mode is always" in warning.text
    assert "bulk would end the archive" in warning.text


@pytest.mark.parametrize("name", ["autovacuum", "track_counts"])
def test_disabled_autovacuum_is_a_warning(name: str) -> None:
    (warning,) = warnings(having(setting(name, "off")))
    assert "autovacuum does not run" in warning.text
    assert f"ALTER SYSTEM SET {name} = on;" in warning.remedy


@pytest.mark.parametrize("profile", ["safe", "bulk", "reckless"])
def test_reckless_settings_are_a_warning_in_every_profile(profile: Profile) -> None:
    left = having(setting("fsync", "off"), setting("full_page_writes", "off"))
    texts = [warning.text for warning in warnings(left, profile)]
    assert any(text.startswith("off: fsync, full_page_writes; a power failure") for text in texts)


def test_the_profile_reckless_warns_about_itself() -> None:
    assert [w.text for w in warnings(SERVER, "reckless") if "destroy the whole database" in w.text]


@pytest.mark.parametrize(
    ("timed", "requested", "warned"), [(50, 51, True), (50, 50, False), (0, 9, False), (0, 10, True)]
)
def test_checkpoints_started_by_a_full_log_are_a_warning(timed: int, requested: int, warned: bool) -> None:
    found = warnings(replace(SERVER, checkpoints=CheckpointCounts(timed, requested, None)))
    assert bool(found) is warned
    if warned:
        assert f"{requested} checkpoints were started by a full log" in found[0].text
        assert f"and {timed} by the clock" in found[0].text
        assert "it is 1GB, advised 8GB" in found[0].remedy


def test_frequent_checkpoints_with_the_advised_log_size() -> None:
    large = setting("max_wal_size", "65536", unit="MB", shown="64GB")
    (warning,) = warnings(
        replace(having(large), checkpoints=CheckpointCounts(0, 100, datetime(2026, 1, 2, tzinfo=UTC)))
    )
    assert "since 2026-01-02" in warning.text
    assert "it is 64GB, and may be raised further" in warning.remedy


def test_settings_that_wait_for_a_restart_are_a_warning() -> None:
    (warning,) = warnings(replace(SERVER, pending_restart=("shared_buffers", "wal_level")))
    assert "restart of the server: shared_buffers, wal_level" in warning.text


@pytest.mark.parametrize("source", ["user", "database", "command line", "client"])
def test_settings_that_override_alter_system_are_named_with_their_source(source: str) -> None:
    facts = having(setting("synchronous_commit", "on", source=source))
    assert verdicts(facts)["synchronous_commit"] == "elsewhere"
    (warning,) = warnings(facts, "bulk")
    assert warning.text.startswith("synchronous_commit = on is set by ")
    assert warning.remedy == "Change it there, to off."
    # A right value may be set anywhere.
    assert warnings(having(setting("synchronous_commit", "off", source=source)), "bulk") == []


def test_a_server_that_does_not_allow_alter_system() -> None:
    refusing = replace(SERVER, alter_system_allowed=False)
    assert ["allow_alter_system is off" in warning.text for warning in warnings(refusing)] == [True]
    denying = having(setting("max_wal_size", "512", unit="MB", alterable=False))
    assert any(f.text == "the user anna may not change these: max_wal_size" for f in findings(denying))


def test_the_embedded_server_is_restarted_for_a_larger_machine() -> None:
    grown = having(setting("max_wal_size", "1024", unit="MB", sourcefile="/home/anna/.era5/postgres/era5.conf"))
    assert any(finding.remedy.startswith("Run era5 db stop") for finding in findings(grown))
    assert not any(finding.remedy.startswith("Run era5 db stop") for finding in findings(SERVER))


@pytest.mark.parametrize(
    ("preloaded", "remedy"),
    [
        ((), "ALTER SYSTEM SET shared_preload_libraries = 'timescaledb';"),
        (("pg_cron", "o'hara"), "ALTER SYSTEM SET shared_preload_libraries = 'pg_cron', 'o''hara', 'timescaledb';"),
        (None, "Let an administrator add timescaledb to shared_preload_libraries"),
    ],
)
def test_timescaledb_that_is_installed_and_not_loaded_is_a_warning(
    preloaded: tuple[str, ...] | None, remedy: str
) -> None:
    (warning,) = warnings(replace(SERVER, timescaledb_offered=True, preloaded=preloaded))
    assert "installed on the server and not loaded" in warning.text
    assert warning.remedy.startswith(remedy)


def test_an_unknown_fact_names_the_option_that_gives_it() -> None:
    unknown = compare(advise("safe", Machine(None, None, None)), SERVER)
    texts = {finding.text: finding.remedy for finding in list_findings(SERVER, unknown, "safe")}
    assert texts == {
        "the disk of the server's machine is unknown, and max_wal_size depends on it": "Give it: era5 doctor --disk GB"
    }


def test_values_that_a_server_does_not_support_are_not_advised() -> None:
    without_it = setting("wal_level", "replica", enumvals=["replica", "logical"])
    assert "wal_level" not in verdicts(having(without_it))
    assert verdicts(SERVER)["wal_level"] == "change"


def test_settings_that_a_server_does_not_have_are_not_advised() -> None:
    assert set(verdicts(SERVER)) == set(SERVER.settings) - set(SETTINGS_OF_FINDINGS)
    assert compare([Advice("no_such_setting", "1", "")], SERVER) == ()


CONTENTS = "url: https://cds.climate.copernicus.eu/api\nkey: 12345678-aaaa\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can look into; pytest's own are private."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def written(path: Path, text: str, mode: int) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def having_timescaledb(version: str, license_name: str = "timescale") -> ServerFacts:
    return replace(SERVER, timescaledb_preloaded=True, timescaledb_version=version, timescaledb_license=license_name)


def test_a_superusers_url_is_a_warning_and_the_embedded_server_is_not() -> None:
    facts = replace(SERVER, session=replace(SERVER.session, user="postgres", is_superuser=True))
    (found,) = security_findings(facts, is_embedded=False)
    assert found.severity == "warning"
    assert "the user postgres of ERA5_DATABASE_URL is a superuser" in found.text
    assert "era5 db init --roles" in found.remedy
    assert list(security_findings(facts, is_embedded=True)) == []
    assert list(security_findings(SERVER, is_embedded=False)) == []


@pytest.mark.parametrize(
    ("version", "faults"),
    [
        ("2.19.3", ("10129", "9921")),
        ("2.28.2", ("10129", "9921")),
        ("2.28.3", ("9921",)),
        ("2.29.1", ("9921",)),
        ("2.9.2", ("10129", "9921")),  # compared as numbers
        ("2.29", ("9921",)),
        ("2.29.2-dev", ()),
        ("2.29.2", ()),
        ("2.29.10", ()),
        ("2.30.0", ()),
        ("3.0.0", ()),
    ],
)
def test_releases_of_timescaledb_with_known_faults(version: str, faults: tuple[str, ...]) -> None:
    found = list(security_findings(having_timescaledb(version), is_embedded=False))
    assert len(found) == bool(faults)
    for finding in found:
        assert finding.severity == "warning"
        assert f"this is TimescaleDB {version}; in releases before 2.29.2, in" in finding.text
        assert {fault for fault in ("10129", "9921") if fault in finding.text} == set(faults)
        assert "ALTER EXTENSION timescaledb UPDATE;" in finding.remedy


def test_the_apache_edition_has_no_columnstore_and_gets_a_note() -> None:
    (found,) = security_findings(having_timescaledb("2.19.3", "apache"), is_embedded=False)
    assert found.severity == "note"
    assert "which the Apache edition does not have" in found.text
    assert list(security_findings(replace(SERVER, timescaledb_version="2.19.3"), is_embedded=False)) == []


def test_the_facts_of_real_servers(empty_warehouse: Warehouse, host: Host) -> None:
    with empty_warehouse.connect() as connection:
        before = diagnose(connection, "safe").findings  # the extension is not created yet
        ensure_schema(connection)
        after = diagnose(connection, "safe").findings
        embedded = diagnose(connection, "safe", is_embedded=True).findings
    for findings, license_name in ((before, None), (after, host.license)):
        assert findings[0].text.startswith("the user postgres of ERA5_DATABASE_URL is a superuser")
        about = [finding.severity for finding in findings if finding.text.startswith("this is TimescaleDB 2.")]
        is_old = host.timescaledb is not None and tuple(map(int, host.timescaledb.split("."))) < (2, 29, 2)
        assert about == (["note" if license_name == "apache" else "warning"] if is_old else [])
    assert not any("superuser" in finding.text for finding in embedded)


def test_a_user_who_is_no_superuser_gets_no_warning(warehouse: Warehouse, host_url: str) -> None:
    with fresh_role(host_url) as role:
        user = type(warehouse)(warehouse.url.replace("//postgres@", f"//{role}@"))
        with user.connect() as connection:
            assert not any("superuser" in finding.text for finding in diagnose(connection, "safe").findings)


@pytest.mark.parametrize(("mode", "told"), [(0o600, 0), (0o640, 0), (0o644, 1), (0o604, 1)], ids=oct)
def test_a_key_that_every_user_can_read(folder: Path, mode: int, told: int) -> None:
    path = written(folder / ".cdsapirc", CONTENTS, mode)
    found = list(file_findings([path, folder / "missing"], folder / ".env"))
    assert len(found) == told
    for finding in found:
        assert finding.text == (
            f"every user of this machine can read {path}, which holds the key of the Climate Data Store"
        )
        assert finding.remedy == f"Run: chmod go-rwx {path}"
        assert "12345678" not in str(finding)
    folder.chmod(0o750)
    assert list(file_findings([path], folder / ".env")) == []


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("ERA5_DATABASE_URL=postgresql://me:correct-horse@db/era5", "ERA5_DATABASE_URL"),
        ("ERA5_DATABASE_URL=postgresql://me@db/era5?password=correct-horse", "ERA5_DATABASE_URL"),
        ("export ERA5_DAGSTER_DATABASE_URL='postgresql://me:correct-horse@db/d'", "ERA5_DAGSTER_DATABASE_URL"),
        ("ERA5_DATABASE_URL=postgresql://me:correct-horse/%@db/era5", "ERA5_DATABASE_URL"),  # invalid
        ("CDSAPI_KEY=correct-horse", "CDSAPI_KEY"),
        ("ERA5_DATABASE_URL=postgresql://me@db/era5", None),
        ("ERA5_AREA=global", None),
        ("#CDSAPI_KEY=correct-horse", None),
        ("CDSAPI_KEY=", None),
    ],
)
def test_an_env_file_with_a_password_that_every_user_can_read(folder: Path, line: str, named: str | None) -> None:
    path = written(folder / ".env", f"{line}\n", 0o644)
    found = list(file_findings([], path))
    assert [finding.text for finding in found] == (
        [f"every user of this machine can read {path}, which holds secrets ({named})"] if named else []
    )
    assert "correct-horse" not in str(found)
    path.chmod(0o600)
    assert list(file_findings([], path)) == []

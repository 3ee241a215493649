"""Diagnoses of real servers, and that the SQL has the promised effect when it is run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.doctor.advice import PROFILES, Advice, Profile
from era5_pipeline.postgres.doctor.comparison import change_statements, compare, undo_statements
from era5_pipeline.postgres.doctor.diagnosis import Diagnosis, diagnose
from era5_pipeline.postgres.doctor.server_facts import Machine, read_server_facts
from era5_pipeline.postgres.embedded.processes import binaries
from era5_pipeline.postgres.embedded.server import EmbeddedServer
from era5_pipeline.postgres.urls import with_database
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.warehouse.loads import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline_tests.servers import Host

GB = 1 << 30
MACHINE = Machine(64 * GB, 16, 1000 * GB)
BEYOND_SAFE = {
    *("max_wal_senders", "archive_mode", "summarize_wal", "wal_level"),
    *("synchronous_commit", "fsync"),
}
# An untuned server, with some bad settings.
UNTUNED = """
shared_buffers = 16MB
max_wal_size = 64MB
max_locks_per_transaction = 64
autovacuum = off
wal_level = replica
max_wal_senders = 5
archive_mode = on
archive_command = 'true'
summarize_wal = on
"""


@dataclass(frozen=True)
class OwnServer:
    """A server of the test's own, which it may change."""

    embedded: EmbeddedServer

    @property
    def url(self) -> str:
        return self.embedded.url("postgres")

    def restart(self) -> None:
        self.embedded.stop(force=True)
        self.embedded.start()

    def psql(self, script: str) -> None:
        """Run the script as a user would."""
        done = subprocess.run(
            [binaries() / "psql", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--quiet", "--file=-", self.url],
            input=script,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")

    def diagnose(self, profile: Profile) -> Diagnosis:
        with Warehouse(self.url).connect() as connection:
            return diagnose(connection, profile, MACHINE)

    def settings(self) -> dict[str, str]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return dict(connection.execute("SELECT name, current_setting(name) FROM pg_settings").fetchall())


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    """A folder with a path short enough for a socket, which pytest's own may not have."""
    folder = Path(tempfile.mkdtemp(prefix="era5-test-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def template(scratch: Path) -> Path:
    """A home with a data folder, to be copied: creating one takes longer than anything else here."""
    home = scratch / "template"
    with EmbeddedServer(home).lease():
        pass
    return home


@contextmanager
def serving(template: Path, configuration: str) -> Iterator[OwnServer]:
    """Run a server with this configuration after its own settings."""
    home = Path(tempfile.mkdtemp(prefix="home-", dir=template.parent)) / "h"
    subprocess.run(["cp", "-a", template, home], check=True)  # with owners, which shutil does not keep
    with (home / "postgres/postgresql.conf").open("a") as file:
        file.write(configuration)
    server = OwnServer(EmbeddedServer(home))
    try:
        server.embedded.start()
        yield server
    finally:
        server.embedded.stop(force=True)
        shutil.rmtree(home.parent)


@pytest.fixture
def untuned(template: Path) -> Iterator[OwnServer]:
    with serving(template, UNTUNED) as server:
        yield server


@pytest.fixture(scope="module")
def quoting(template: Path) -> Iterator[OwnServer]:
    """A server of which tests change one setting, without a restart."""
    with serving(template, "") as server:
        yield server


def verdicts(diagnosis: Diagnosis) -> dict[str, str]:
    return {row.name: row.verdict for row in diagnosis.rows}


def texts(diagnosis: Diagnosis) -> str:
    return "\n".join(finding.text for finding in diagnosis.findings)


def test_the_embedded_server_has_the_advised_settings(embedded: EmbeddedServer) -> None:
    with Warehouse(embedded.url("postgres")).connect() as connection:
        diagnosis = diagnose(connection, "safe")
    assert diagnosis.origins == {"memory": "this machine", "disk": "this machine"}
    assert diagnosis.machine.free_bytes == pytest.approx(shutil.disk_usage(embedded.data_folder).free, rel=0.2)
    assert {"shared_buffers", "max_wal_size", "max_locks_per_transaction"} == set(verdicts(diagnosis))
    assert set(verdicts(diagnosis).values()) == {"ok"}
    assert (diagnosis.statements, diagnosis.undo, diagnosis.undo_script) == ((), (), "")
    assert "Nothing to change" in diagnosis.script


@pytest.mark.parametrize("profile", PROFILES)
def test_the_sql_sets_what_is_advised_and_the_undo_sql_goes_back(untuned: OwnServer, profile: Profile) -> None:
    before = untuned.settings()
    first = untuned.diagnose(profile)
    assert set(verdicts(first).values()) <= {"change", "ok"}
    assert {"shared_buffers", "max_wal_size"} <= {
        name for name, verdict in verdicts(first).items() if verdict == "change"
    }
    assert not BEYOND_SAFE & set(verdicts(first)) or profile != "safe"
    assert untuned.settings() == before  # the diagnosis changes nothing

    untuned.psql(first.file)
    # A reload applies what it can, the rest waits for a restart, and no statement is repeated.
    waiting = untuned.diagnose(profile)
    for row in waiting.rows:
        changed = verdicts(first)[row.name] == "change"
        assert row.verdict == ("restart" if changed and row.applied_by == "restart" else "ok"), row.name
    assert waiting.statements == ()
    assert "waiting for a restart of the server: " in texts(waiting)

    untuned.restart()
    done = untuned.diagnose(profile)
    assert set(verdicts(done).values()) == {"ok"}
    after = untuned.settings()
    for row in first.rows:
        if row.verdict == "change":
            assert after[row.name] == row.advice.value, row.name
        else:
            assert after[row.name] == before[row.name], row.name
    assert after["full_page_writes"] == "on"
    if profile != "reckless":
        assert after["fsync"] == "on"
    if profile == "safe":
        assert {name: after[name] for name in BEYOND_SAFE} == {name: before[name] for name in BEYOND_SAFE}

    # The undo SQL is the same before and after the changes.
    assert first.undo == done.undo
    assert bool(done.undo) is (profile != "safe")
    if done.undo:
        untuned.psql(done.undo_script)
        untuned.restart()
        back = untuned.settings()
        assert {name: back[name] for name in BEYOND_SAFE} == {name: before[name] for name in BEYOND_SAFE}
        assert set(verdicts(untuned.diagnose("safe")).values()) == {"ok"}


def test_undo_restores_values_that_alter_system_had_set_before(template: Path) -> None:
    with serving(template, "wal_level = replica\nmax_wal_senders = 5\n") as server:
        server.psql("ALTER SYSTEM SET synchronous_commit = 'local'; SELECT pg_reload_conf() \\g /dev/null")
        diagnosis = server.diagnose("bulk")
        server.psql(diagnosis.file)
        assert server.settings()["synchronous_commit"] == "off"
        server.psql(diagnosis.undo_script)
        server.restart()
        settings = server.settings()
    assert (settings["synchronous_commit"], settings["wal_level"]) == ("local", "replica")


def test_with_a_replication_slot_the_server_starts_after_bulk(template: Path) -> None:
    with serving(template, UNTUNED) as server:
        server.psql("SELECT pg_create_physical_replication_slot('standby_1') \\g /dev/null")
        diagnosis = server.diagnose("bulk")
        assert {name for name, verdict in verdicts(diagnosis).items() if verdict == "held back"} == {
            *("max_wal_senders", "archive_mode", "summarize_wal", "wal_level"),
        }
        assert "replication slots standby_1" in texts(diagnosis)
        assert "-- Left out (era5 doctor says why): max_wal_senders" in diagnosis.script
        server.psql(diagnosis.file)
        server.restart()
        settings = server.settings()
        assert (settings["wal_level"], settings["archive_mode"]) == ("replica", "on")
        assert settings["synchronous_commit"] == "off"


def test_a_connected_replica_holds_back_the_minimal_log(template: Path) -> None:
    with serving(template, "wal_level = replica\nmax_wal_senders = 5\n") as server:
        # As a replica connects; it is counted from then on.
        with psycopg.connect(server.url + "&replication=true", autocommit=True):
            diagnosis = server.diagnose("bulk")
        assert verdicts(diagnosis)["wal_level"] == "held back"
        assert "1 connected" in texts(diagnosis)
        assert verdicts(server.diagnose("bulk"))["wal_level"] == "change"


def test_findings_about_an_untuned_server(untuned: OwnServer) -> None:
    untuned.psql("CHECKPOINT;" * 12)
    found = texts(untuned.diagnose("safe"))
    assert "autovacuum does not run (autovacuum off)" in found
    assert "were started by a full log" in found
    assert "would end the archive" not in found
    assert "archive_mode is on: the profile bulk would end the archive" in texts(untuned.diagnose("bulk"))


@pytest.mark.parametrize("value", ["it's", "back\\slash \\n", 'double "quotes" %m', "$$; DROP TABLE weather; --", "ä "])
def test_odd_values_are_quoted(quoting: OwnServer, value: str) -> None:
    advice = Advice("log_line_prefix", value, "", "exactly", "bulk")
    with Warehouse(quoting.url).connect() as connection:
        rows = compare([advice], read_server_facts(connection, [advice.name]))
        statements = change_statements(rows, connection)
    quoting.psql("\n".join(statements))
    assert quoting.settings()[advice.name] == value
    # A value that was set before is set again.
    with Warehouse(quoting.url).connect() as connection:
        rows = compare([replace(advice, value="plain")], read_server_facts(connection, [advice.name]))
        undo = undo_statements(rows, connection)
    quoting.psql("\n".join((*(f"ALTER SYSTEM SET {advice.name} = 'plain';",), *undo)))
    assert quoting.settings()[advice.name] == value


@pytest.mark.parametrize("profile", PROFILES)
def test_a_diagnosis_of_any_server_changes_nothing(shared_warehouse: Warehouse, host: Host, profile: Profile) -> None:
    everything = "SELECT jsonb_agg(jsonb_build_array(name, setting, source, pending_restart)) FROM pg_settings"
    before = ask(shared_warehouse.url, everything)
    with shared_warehouse.connect() as connection:
        diagnosis = diagnose(connection, profile, MACHINE)
    assert ask(shared_warehouse.url, everything) == before
    assert diagnosis.server.version_text.startswith(host.version)
    assert (diagnosis.machine.memory_bytes, diagnosis.machine.free_bytes) == (64 * GB, 1000 * GB)
    assert set(diagnosis.origins.values()) == {"given"}
    assert "unknown" not in verdicts(diagnosis).values()
    assert {"shared_buffers", "max_locks_per_transaction", "max_wal_size"} <= set(verdicts(diagnosis))
    for row in diagnosis.rows:
        assert (row.verdict == "ok") is row.advice.is_met_by(row.setting.setting, row.setting.unit)
        assert (f"ALTER SYSTEM SET {row.name} = " in diagnosis.script) is (row.verdict == "change")


def test_findings_about_timescaledbs_edition(empty_warehouse: Warehouse, host: Host) -> None:
    with empty_warehouse.connect() as connection:
        before = texts(diagnose(connection, "safe"))
        ensure_schema(connection)
        after = texts(diagnose(connection, "safe"))
    assert ("TimescaleDB is loaded, but not yet created as an extension" in before) is (host.license is not None)
    assert "not yet created as an extension" not in after
    assert ("a row takes 77 bytes" in after) is (host.license == "apache")
    assert ("direct compress" in after) is (host.license == "timescale")


def test_a_diagnosis_by_a_user_without_privileges(shared_warehouse: Warehouse, host_url: str) -> None:
    with fresh_role(host_url) as role, Warehouse(as_role(shared_warehouse.url, role)).connect() as connection:
        diagnosis = diagnose(connection, "bulk", MACHINE)
    assert verdicts(diagnosis)["synchronous_commit"] == "change"
    assert f"the user {role} may not change these: " in texts(diagnosis)
    assert diagnosis.statements


def as_role(url: str, role: str) -> str:
    return url.replace("//postgres@", f"//{role}@")


def test_a_setting_of_a_role_overrides_alter_system(server_url: str) -> None:
    with fresh_role(server_url) as role:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE {role} SET synchronous_commit = local".encode())
        with Warehouse(as_role(server_url, role)).connect() as connection:
            diagnosis = diagnose(connection, "bulk")
        assert verdicts(diagnosis)["synchronous_commit"] == "elsewhere"
        said = "synchronous_commit = local is set by ALTER ROLE ... SET, which overrides ALTER SYSTEM"
        assert said in texts(diagnosis)
        assert "synchronous_commit =" not in diagnosis.script
        with Warehouse(server_url).connect() as connection:
            assert verdicts(diagnose(connection, "bulk"))["synchronous_commit"] == "change"


def test_given_facts_override_measured_ones(server_url: str) -> None:
    with Warehouse(server_url).connect() as connection:
        diagnosis = diagnose(connection, "safe", Machine(1 * GB, None, None))
    assert diagnosis.origins == {"memory": "given", "disk": "this machine"}
    assert diagnosis.machine.memory_bytes == 1 * GB
    advised = {row.name: row.advice.value for row in diagnosis.rows}
    assert advised["shared_buffers"] == "256MB"
    assert verdicts(diagnosis)["shared_buffers"] == "ok"


def test_a_database_without_an_encoding(server_url: str) -> None:
    """As initdb creates in the locale C."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE era5_test_ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C'"
        )
        try:
            with Warehouse(with_database(server_url, "era5_test_ascii")).connect() as ascii_connection:
                diagnosis = diagnose(ascii_connection, "bulk", MACHINE)
        finally:
            connection.execute("DROP DATABASE era5_test_ascii WITH (FORCE)")
    assert str(diagnosis.server).startswith("PostgreSQL 18.")
    assert verdicts(diagnosis)["shared_buffers"] == "ok"
    assert "ALTER SYSTEM SET synchronous_commit = 'off';" in diagnosis.script


def test_values_are_compared_across_units(template: Path) -> None:
    """The same amounts in other units."""
    with serving(template, "shared_buffers = 131072\nmax_wal_size = 8388608kB\n") as own:
        diagnosis: Any = own.diagnose("safe")
    rows = {row.name: row for row in diagnosis.rows}
    assert [rows[name].verdict for name in ("shared_buffers", "max_wal_size")] == ["ok"] * 2

"""The advice grows with the machine, has evidence, and does what it promises; findings have a remedy."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.doctor.advice import (
    ADVICE,
    MINIMAL_LOG,
    JudgedSetting,
    Share,
    file_findings,
    findings,
    judge,
    script,
)
from era5_pipeline.postgres.doctor.server_facts import Machine, ServerFacts, ServerSetting, read_server_facts
from era5_pipeline.postgres.embedded.processes import binaries
from era5_pipeline.postgres.embedded.server import EmbeddedServer
from era5_pipeline.postgres.server_version import Server
from era5_pipeline.postgres.urls import with_database
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.warehouse.loads import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from era5_pipeline_tests.servers import Host

GB = 1 << 30
MACHINE = Machine(64 * GB, 16, 1000 * GB)
UNKNOWN = Machine(None, None, None)
NAMES = [advice.name for advice in ADVICE]
FOR_ONE_LOAD = {*MINIMAL_LOG, "synchronous_commit"}

machines = st.builds(
    Machine,
    memory_bytes=st.integers(GB // 4, 4096 * GB),
    cores=st.integers(1, 512),
    free_bytes=st.integers(0, 100_000 * GB),
)

# --- The rows of advice ---


def wanted(name: str, machine: Machine) -> Any:
    return {advice.name: advice.wanted(machine) for advice in ADVICE}[name]


@given(machines, machines)
def test_a_larger_machine_never_gets_smaller_values(one: Machine, other: Machine) -> None:
    larger = Machine(
        max(one.memory_bytes or 0, other.memory_bytes or 0), None, max(one.free_bytes or 0, other.free_bytes or 0)
    )
    for advice in ADVICE:
        if not isinstance(advice.value, str):
            assert wanted(advice.name, one) <= wanted(advice.name, larger)


@given(machines)
def test_memory_and_disk_are_left_for_other_uses(machine: Machine) -> None:
    assert wanted("shared_buffers", machine) <= min((machine.memory_bytes or 0) / 4, GB)
    assert wanted("max_wal_size", machine) <= max(GB, (machine.free_bytes or 0) / 10)


def test_wal_level_comes_after_the_settings_that_it_requires() -> None:
    assert {*NAMES[NAMES.index("wal_level") :]} & {*MINIMAL_LOG} == {"wal_level"}
    assert {advice.name for advice in ADVICE if advice.for_one_load} == FOR_ONE_LOAD


def cells(suite: str) -> dict[str, dict[str, float]]:
    """The medians of a suite's cells in the committed results."""
    found = {}
    for path in sorted((ROOT / "benchmarks" / "results").rglob("*.json")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["suite"] == suite and cell["medians"]:
                found[cell["name"]] = {name: median for name, (_, median, _) in cell["medians"].items()}
                found[cell["name"]]["rows"] = cell["rows"]
    return found


def is_faster(setting: str) -> bool:
    measured = cells("settings")
    tables = {name.partition(", ")[2] for name in measured if name.startswith("default, ")}
    assert len(tables) == 2
    return all(measured[f"{setting}, {one}"]["seconds"] < measured[f"default, {one}"]["seconds"] for one in tables)


def logs_less(setting: str) -> bool:
    measured, table = cells("settings"), "a new table for each batch"
    name = "wal_bytes_per_row"
    return measured[f"{setting}, {table}"][name] < measured[f"default, {table}"][name] / 10


def fills_the_default_log_within_a_minute() -> bool:
    measured = [cell for name, cell in cells("settings").items() if name.startswith("default, ")]
    return all(60 * cell["wal_bytes_per_row"] * cell["rows"] / cell["seconds"] > GB for cell in measured)


# The measurement behind each piece of advice; None: not about speed, or measured by a study.
EVIDENCE: dict[str, Callable[[], bool] | None] = {
    "shared_buffers": None,  # a study
    "max_wal_size": fills_the_default_log_within_a_minute,
    "max_locks_per_transaction": None,  # without it, queries over all years fail
    **dict.fromkeys(("fsync", "full_page_writes", "autovacuum", "track_counts"), None),  # off, data can be lost
    "wal_level": partial(logs_less, "wal_level=minimal"),
    **dict.fromkeys((name for name in MINIMAL_LOG if name != "wal_level"), None),  # required by wal_level=minimal
    "synchronous_commit": partial(is_faster, "synchronous_commit=off"),
}


def test_every_advice_has_evidence_and_says_where_it_comes_from() -> None:
    assert set(NAMES) == set(EVIDENCE)
    for name, evidence in EVIDENCE.items():
        assert evidence is None or evidence(), name
    for advice in ADVICE:
        assert advice.why.endswith(".")
        assert advice.source


@pytest.mark.parametrize("setting", ["full_page_writes=off", "wal_compression=pglz", "jit=off"])
def test_what_makes_no_load_faster_is_not_advised(setting: str) -> None:
    assert not is_faster(setting)
    assert setting.split("=") not in [[advice.name, advice.value] for advice in ADVICE]


# --- Judging settings, on made-up facts ---


def setting(name: str, value: str, **more: Any) -> ServerSetting:
    amount = float(value) if value.isdigit() else None
    made = {"amount": amount, "context": "postmaster", "enumvals": None, "source": "default", "sourcefile": None}
    return ServerSetting(name, value, value, **(made | {"pending_restart": False, "alterable": True} | more))


DEFAULTS = (
    setting("max_wal_size", "1024", amount=GB, context="sighup"),
    setting("max_wal_senders", "10"),
    setting("archive_mode", "off", enumvals=["always", "on", "off"]),
    setting("wal_level", "replica", enumvals=["minimal", "replica", "logical"]),
    setting("fsync", "on", context="sighup"),
    setting("synchronous_commit", "on", context="user"),
)
NOTHING = dict.fromkeys(
    ("superuser", "standby", "faulty", "not_loaded", "pending", "checkpoints", "requested", "timed", "replicas")
)


def facts_with(*changed: ServerSetting, **others: object) -> ServerFacts:
    settings = {setting.name: setting for setting in (*DEFAULTS, *changed)}
    return ServerFacts(Server(17, "17.2", None, None), UNKNOWN, settings, NOTHING | {"session_user": "anna"} | others)


def verdicts(rows: tuple[JudgedSetting, ...]) -> dict[str, str]:
    return {row.advice.name: row.verdict for row in rows}


def test_settings_of_a_server_as_installed() -> None:
    rows = judge(facts_with(), MACHINE)
    assert verdicts(rows) == {
        "max_wal_size": "change",
        "fsync": "ok",
        "max_wal_senders": "for one load",
        "archive_mode": "ok",
        "wal_level": "for one load",
        "synchronous_commit": "for one load",
    }
    assert script(rows) == [
        "ALTER SYSTEM SET max_wal_size = '8GB';",
        "SELECT pg_reload_conf();",
        "-- For one load; no committed month is lost; no replicas, archive and base backups meanwhile:",
        "--   ALTER SYSTEM SET max_wal_senders = '0';",
        "--   ALTER SYSTEM SET wal_level = 'minimal';",
        "--   ALTER SYSTEM SET synchronous_commit = 'off';",
        "--   SELECT pg_reload_conf();",
        "-- After that load; then restart, and take a base backup: older ones end at wal_level=minimal:",
        "--   ALTER SYSTEM RESET synchronous_commit;",
        "--   ALTER SYSTEM RESET wal_level;",
        "--   ALTER SYSTEM RESET max_wal_senders;",
        "--   SELECT pg_reload_conf();",
    ]
    assert findings(facts_with(), rows, is_embedded=False) == []


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        # Free disk varies: what was right at the server's start still is.
        (setting("max_wal_size", "6144", amount=6 * GB), "ok"),
        (setting("max_wal_size", "6143", amount=6 * GB - 1), "change"),
        (setting("max_wal_size", "99999", amount=99 * GB), "ok"),
        (setting("max_locks_per_transaction", "511"), "change"),
        (setting("max_locks_per_transaction", "512"), "ok"),
        (setting("fsync", "off"), "change"),
        (setting("fsync", "off", pending_restart=True), "restart"),
        (setting("synchronous_commit", "local", source="database"), "elsewhere"),
        (setting("synchronous_commit", "off", source="database"), "ok"),  # a right value may be set anywhere
    ],
)
def test_the_verdict_on_a_setting(found: ServerSetting, verdict: str) -> None:
    assert verdicts(judge(facts_with(found), MACHINE))[found.name] == verdict


def test_nothing_is_advised_from_unknown_facts() -> None:
    rows = judge(facts_with(setting("shared_buffers", "16384", amount=GB / 8)), UNKNOWN)
    unknown = {row.advice.name for row in rows if row.verdict == "unknown"}
    assert unknown == {advice.name for advice in ADVICE if isinstance(advice.value, Share)}
    assert script(rows)[0] == "-- Nothing to change."


@pytest.mark.parametrize(
    "facts",
    [
        facts_with(standby=True),
        facts_with(replicas="2 connected"),
        # As in a container that gets settings as arguments: wal_level alone would keep the server from starting.
        facts_with(setting("max_wal_senders", "10", source="command line")),
    ],
    ids=["standby", "replicas", "fixed"],
)
def test_the_minimal_log_is_held_back(facts: ServerFacts) -> None:
    rows = judge(facts, MACHINE)
    assert verdicts(rows)["wal_level"] == "held back"
    assert "wal_level" not in " ".join(script(rows)).replace("wal_level=minimal", "")
    assert findings(facts, rows, is_embedded=False)


def test_settings_and_values_that_a_server_does_not_support_are_not_advised() -> None:
    rows = judge(facts_with(setting("wal_level", "replica", enumvals=["replica", "logical"])), MACHINE)
    assert not {"wal_level", "shared_buffers"} & verdicts(rows).keys()


def test_settings_that_alter_system_cannot_change_are_findings() -> None:
    facts = facts_with(setting("synchronous_commit", "local", source="user"))
    (finding,) = findings(facts, judge(facts, MACHINE), is_embedded=False)
    assert finding.text == "synchronous_commit = local is set by the user, which overrides ALTER SYSTEM"
    assert finding.remedy == "Change it there, to off."
    facts = facts_with(setting("max_wal_size", "1024", amount=GB, alterable=False))
    (finding,) = findings(facts, judge(facts, MACHINE), is_embedded=False)
    assert "not allowed for the user anna, or on this server: max_wal_size" in finding.text


@pytest.mark.parametrize(
    ("fact", "value", "text"),
    [
        ("superuser", "postgres", "the user postgres of ERA5_DATABASE_URL is a superuser"),
        ("faulty", "2.19.3", "this is TimescaleDB 2.19.3; in releases before 2.29.2"),
        ("not_loaded", "ALTER SYSTEM SET x = 'y';", "installed on the server and not loaded"),
        ("pending", "wal_level", "waiting for a restart of the server: wal_level"),
        ("checkpoints", True, "1,000 checkpoints were started by a full log"),
    ],
)
def test_each_fact_is_a_finding(fact: str, value: object, text: str) -> None:
    facts = facts_with(**{"requested": 1_000, "timed": 3, fact: value})
    (finding,) = findings(facts, (), is_embedded=False)
    assert text in finding.text
    assert finding.remedy
    assert len(findings(facts, (), is_embedded=True)) == (fact != "superuser")


# --- Real servers ---


def read(url: str) -> tuple[ServerFacts, tuple[JudgedSetting, ...]]:
    with Warehouse(url).connect() as connection:
        facts = read_server_facts(connection, NAMES)
    return facts, judge(facts, MACHINE)


@pytest.fixture
def untuned() -> Iterator[EmbeddedServer]:
    """A server of the test's own with some bad settings, in a folder with a path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="era5-test-", dir="/tmp"))
    server = EmbeddedServer(folder / "h")
    with server.lease():
        pass
    with (folder / "h/postgres/postgresql.conf").open("a") as file:
        file.write(
            "shared_buffers = 16MB\nmax_wal_size = 64MB\nautovacuum = off\nwal_level = replica\nmax_wal_senders = 5\n"
            "archive_mode = on\narchive_command = 'true'\nsummarize_wal = on\n"
        )
    try:
        server.start()
        yield server
    finally:
        server.stop(force=True)
        shutil.rmtree(folder)


def psql(url: str, lines: list[str]) -> None:
    """Run the lines as a user would."""
    done = subprocess.run(
        [binaries() / "psql", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--quiet", "--file=-", url],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def settings_of(url: str) -> dict[str, str]:
    with psycopg.connect(url, autocommit=True) as connection:
        return dict(connection.execute("SELECT name, current_setting(name) FROM pg_settings").fetchall())


def test_the_sql_sets_what_is_advised_and_its_comments_go_back(untuned: EmbeddedServer) -> None:
    url = untuned.url("postgres")
    before = settings_of(url)
    facts, rows = read(url)
    assert settings_of(url) == before  # reading changes nothing
    assert facts.machine.free_bytes == pytest.approx(shutil.disk_usage(untuned.data_folder).free, rel=0.2)
    lines = script(rows)
    psql(url, lines)
    _, waiting = read(url)
    for row in rows:
        expected = "restart" if row.applied_by == "restart" else "ok"
        assert verdicts(waiting)[row.advice.name] == (expected if row.verdict == "change" else row.verdict)
    assert "wal_level" not in [row.advice.name for row in rows if row.verdict == "change"]

    there, back = (
        [line.removeprefix("--   ") for line in part.splitlines() if line.startswith("--   ")]
        for part in "\n".join(lines).split("-- After that load")
    )
    psql(url, there)
    untuned.stop(force=True)
    untuned.start()
    assert set(verdicts(read(url)[1]).values()) == {"ok"}
    psql(url, back)
    untuned.stop(force=True)
    untuned.start()
    after = settings_of(url)
    assert {name: after[name] for name in FOR_ONE_LOAD} == {name: before[name] for name in FOR_ONE_LOAD}
    assert {row.verdict for row in read(url)[1] if not row.advice.for_one_load} == {"ok"}

    psql(url, ["SELECT pg_create_physical_replication_slot('standby_1') \\g /dev/null"])
    facts, rows = read(url)
    assert facts.others["replicas"] == "replication slots standby_1"
    assert verdicts(rows)["wal_level"] == "held back"


def test_the_embedded_server_has_the_advised_settings(embedded: EmbeddedServer) -> None:
    with Warehouse(embedded.url("postgres")).connect() as connection:
        facts = read_server_facts(connection, NAMES)
        rows = judge(facts, facts.machine)
    assert {row.verdict for row in rows if not isinstance(row.advice.value, str)} == {"ok"}


def test_reading_the_facts_of_any_server_changes_nothing(shared_warehouse: Warehouse, host: Host) -> None:
    everything = "SELECT jsonb_agg(jsonb_build_array(name, setting, source, pending_restart)) FROM pg_settings"
    before = ask(shared_warehouse.url, everything)
    facts, rows = read(shared_warehouse.url)
    assert ask(shared_warehouse.url, everything) == before
    assert facts.server.version_text.startswith(host.version)
    assert facts.others["superuser"] == "postgres"
    assert {"shared_buffers", "max_locks_per_transaction", "max_wal_size"} <= verdicts(rows).keys()
    is_old = host.timescaledb is not None and tuple(map(int, host.timescaledb.split("."))) < (2, 29, 2)
    assert bool(facts.others["faulty"]) is (is_old and host.license != "apache")


@pytest.mark.parametrize(
    ("version", "license_name", "is_faulty"),
    [
        *(("2.19.3", "timescale", True), ("2.29.1", "timescale", True), ("2.9.2", "timescale", True)),
        *(("2.29.2-dev", "timescale", False), ("2.29.10", "timescale", False), ("3.0.0", "timescale", False)),
        ("2.19.3", "apache", False),
    ],
)
def test_releases_of_timescaledb_with_known_faults(
    server_url: str, version: str, license_name: str, is_faulty: bool
) -> None:
    with Warehouse(server_url).connect() as connection:
        installs_timescaledb(connection, version)
        connection.execute(f"SET timescaledb.license = {license_name}".encode())
        facts = read_server_facts(connection, NAMES).others
    assert facts["faulty"] == (version if is_faulty else None)
    assert facts["not_loaded"] is None


@pytest.mark.parametrize(
    ("preloaded", "remedy"),
    [
        ("''", "ALTER SYSTEM SET shared_preload_libraries = 'timescaledb';"),
        (
            """'pg_cron, "o''hara"'""",
            "ALTER SYSTEM SET shared_preload_libraries = 'pg_cron', 'o''hara', 'timescaledb';",
        ),
        (None, "Let an administrator add timescaledb to shared_preload_libraries,"),
    ],
)
def test_timescaledb_that_is_installed_and_not_loaded(server_url: str, preloaded: str | None, remedy: str) -> None:
    with Warehouse(server_url).connect() as connection:
        installs_timescaledb(connection, "2.29.2")
        connection.execute(
            "CREATE TEMPORARY VIEW pg_settings AS SELECT name, "
            f"CASE name WHEN 'shared_preload_libraries' THEN {preloaded or 'NULL'} ELSE setting END AS setting, "
            "vartype, unit, context, enumvals, source, sourcefile, pending_restart FROM pg_catalog.pg_settings "
            f"WHERE name <> '{'' if preloaded else 'shared_preload_libraries'}'".encode()
        )
        facts = read_server_facts(connection, []).others
    assert facts["not_loaded"] == remedy


def installs_timescaledb(connection: psycopg.Connection[Any], version: str) -> None:
    """Let the session see TimescaleDB among the extensions: temporary views come before the catalogue's."""
    connection.execute(
        "CREATE TEMPORARY VIEW pg_available_extensions AS "
        f"SELECT 'timescaledb'::name AS name, '{version}' AS default_version, NULL AS installed_version".encode()
    )


def test_a_user_without_privileges_and_a_setting_of_its_role(server_url: str) -> None:
    with fresh_role(server_url) as role:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE {role} SET synchronous_commit = local".encode())
        facts, rows = read(server_url.replace("//postgres@", f"//{role}@"))
    assert (facts.others["superuser"], verdicts(rows)["synchronous_commit"]) == (None, "elsewhere")
    assert not any(row.setting.alterable for row in rows)


def test_a_database_without_an_encoding(server_url: str) -> None:
    """As initdb creates in the locale C."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE era5_test_ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C'"
        )
        try:
            _, rows = read(with_database(server_url, "era5_test_ascii"))
        finally:
            connection.execute("DROP DATABASE era5_test_ascii WITH (FORCE)")
    assert verdicts(rows)["shared_buffers"] == "ok"


# --- Files with secrets ---


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


@pytest.mark.parametrize(("mode", "found"), [(0o600, 0), (0o640, 0), (0o644, 1), (0o604, 1)], ids=oct)
def test_a_key_that_every_user_can_read(folder: Path, mode: int, found: int) -> None:
    path = written(folder / ".cdsapirc", "key: 12345678-aaaa\n", mode)
    assert [finding.remedy for finding in file_findings(path, folder / ".env")] == [f"Run: chmod go-rwx {path}"] * found
    folder.chmod(0o750)
    assert list(file_findings(path, folder / ".env")) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ERA5_DATABASE_URL=postgresql://me:correct-horse@db/era5", 1),
        ("ERA5_DATABASE_URL=postgresql://me@db/era5?password=correct-horse", 1),
        ("export ERA5_DAGSTER_DATABASE_URL='postgresql://me:correct-horse@db/d'", 1),
        ("ERA5_DATABASE_URL=postgresql://me:correct-horse/%@db/era5", 1),  # invalid
        ("ERA5_AREA=global\nCDSAPI_KEY=correct-horse", 1),
        ("ERA5_DATABASE_URL=postgresql://me@db:5432/era5", 0),
        ("#CDSAPI_KEY=correct-horse", 0),
        ("CDSAPI_KEY=\nERA5_AREA=global", 0),
    ],
)
def test_an_env_file_with_a_secret_that_every_user_can_read(folder: Path, line: str, found: int) -> None:
    path = written(folder / ".env", f"{line}\n", 0o644)
    assert len(list(file_findings(folder / "missing", path))) == found
    path.chmod(0o600)
    assert list(file_findings(folder / "missing", path)) == []

"""`era5 doctor`: table, SQL and JSON; servers that are remote, unreachable or give few privileges."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline.postgres.doctor.advice import PROFILES
from era5_pipeline_tests.commands import ERA5, Home, InProcess, assert_explained, environment, in_terminal, new_home
from era5_pipeline_tests.servers import fresh_role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.servers import Host

STATEMENT = re.compile(r"ALTER SYSTEM (SET [\w.]+ = '[^']*'|RESET [\w.]+);|SELECT pg_reload_conf\(\);")


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> InProcess:
    return InProcess(capsys, monkeypatch, tmp_path)


@pytest.fixture
def home() -> Iterator[Home]:
    with new_home() as home:
        yield home


@pytest.fixture
def badly_set_url(database_url: str) -> str:
    """The URL of a database with a setting that is not as advised, and that ALTER SYSTEM cannot change."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = local".encode())
    return database_url


def syncs(url: str) -> bool:
    """Whether fsync is on; the server of the tests has it off."""
    with psycopg.connect(url) as connection:
        return connection.execute("SHOW fsync").fetchone() == ("on",)


def words(text: str) -> str:
    return " ".join(text.split())


def test_embedded_server_needs_no_change(here: InProcess, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    printed = here.run("doctor").out
    assert "\x1b" not in printed
    assert "(PostgreSQL 18" in printed.splitlines()[0]
    assert re.search(
        r"its machine: memory [\d.]+ GB \(this machine\), free disk [\d.]+ GB \(this machine\)",
        printed,
    )
    assert re.search(r"\n +shared_buffers +\w+B +>= \w+B +ok +\w", printed)
    assert re.search(r"\n +max_locks_per_transaction +512 +>= 512 +ok +A query", printed)
    assert "Every setting is as the profile safe advises, or better." in printed
    assert "\nALTER SYSTEM SET" not in printed


@pytest.mark.skipif(sys.platform != "linux", reason="script is another program elsewhere")
@pytest.mark.parametrize("columns", [80, 200])
def test_setting_names_are_not_truncated_in_any_terminal(server_url: str, tmp_path: Path, columns: int) -> None:
    printed = in_terminal(columns, "doctor", "--profile", "bulk", cwd=tmp_path, ERA5_DATABASE_URL=server_url)
    table = re.split(r"\n(?=note: |warning: )", printed[printed.index(" setting ") :])[0].splitlines()
    assert any(line.startswith("  max_locks_per_transaction ") for line in table)
    assert all(len(line) <= columns for line in table)
    # The reason is in the table, or below it.
    reason = "Small transactions do not wait for the disk"
    assert any(line.startswith("  synchronous_commit ") and reason in line for line in table) is (columns == 200)
    assert any(line.startswith(f"synchronous_commit: {reason}") for line in table) is (columns == 80)


def test_advised_changes_are_shown_with_sql(here: InProcess, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    printed = here.run("doctor", "--memory", "4000", "--profile", "bulk").out
    assert "memory 4000.0 GB (given)" in printed
    assert re.search(r"\n +synchronous_commit +on +off +change +reload +Small", printed)
    tail = printed[printed.index("-- Profile bulk") :]
    assert "ALTER SYSTEM SET synchronous_commit = 'off';\n" in tail
    assert tail.count("SELECT pg_reload_conf();") == 2
    assert tail.endswith(
        "\n-- After the load, to go back:\nALTER SYSTEM RESET synchronous_commit;\nSELECT pg_reload_conf();\n"
    )


def test_profile_reckless_warns(here: InProcess, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    printed = here.run("doctor", "--profile", "reckless").out
    assert "warning: the profile reckless turns fsync off" in printed
    assert ("ALTER SYSTEM SET fsync = 'off';\n" in printed) is syncs(database_url)
    assert "fsync = 'off'" not in here.run("doctor", "--profile", "bulk").out


@pytest.mark.parametrize("profile", PROFILES)
def test_sql_output_is_valid_psql_input(here: InProcess, warehouse: Warehouse, profile: str) -> None:
    here.set(ERA5_DATABASE_URL=warehouse.url)
    arguments = ("doctor", "--memory", "64", "--disk", "1000", "--profile", profile, "--sql")
    printed = here.run(*arguments)
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert lines[0].startswith(f"-- Profile {profile}: ")
    for line in lines:
        assert line.startswith("--") or STATEMENT.fullmatch(line), line
    run = [line for line in lines if not line.startswith("--")]
    assert run == [] or run[-1] == "SELECT pg_reload_conf();"
    assert run or profile == "safe"
    assert ("ALTER SYSTEM SET fsync = 'off';" in run) is (profile == "reckless" and syncs(warehouse.url))
    assert not any("RESET" in line for line in run)  # the way back is in comments


def test_sql_without_changes_is_only_comments(here: InProcess, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    lines = here.run("doctor", "--sql").out.splitlines()
    assert "-- Nothing to change." in lines
    assert all(line.startswith("--") for line in lines)


def test_json_has_settings_findings_and_sql(here: InProcess, warehouse: Warehouse, host: Host) -> None:
    here.set(ERA5_DATABASE_URL=warehouse.url)
    arguments = ("doctor", "--memory", "64", "--disk", "1000", "--profile", "bulk")
    printed = here.run(*arguments, "--json")
    assert printed.err == ""
    found = printed.json()
    assert found["server"].startswith(f"PostgreSQL {host.version}")
    assert found["database"] == warehouse.shown
    assert found["profile"] == "bulk"
    assert found["machine"] == {
        "memory_bytes": 64 << 30,
        "free_disk_bytes": 1000 << 30,
        "known_from": {"memory": "given", "disk": "given"},
    }
    rows = {row["name"]: row for row in found["settings"]}
    assert (rows["shared_buffers"]["advised"], rows["shared_buffers"]["enough"]) == ("1GB", "at least")
    assert rows["max_locks_per_transaction"]["applied_by"] == "restart"
    assert (rows["synchronous_commit"]["verdict"], rows["synchronous_commit"]["profile"]) == ("change", "bulk")
    assert all(row["why"] for row in found["settings"])
    assert {finding["severity"] for finding in found["findings"]} <= {"warning", "note"}
    for finding in found["findings"]:
        assert finding["text"]
        assert finding["remedy"]
    shown = here.run(*arguments, "--sql").out
    assert found["sql"] == [line for line in shown.splitlines() if not line.startswith("--")]
    assert found["undo_sql"] == [line[5:] for line in shown.splitlines() if line.startswith("--   ")]


def test_setting_that_alter_system_cannot_change_is_reported(here: InProcess, badly_set_url: str) -> None:
    here.set(ERA5_DATABASE_URL=badly_set_url)
    printed = here.run("doctor", "--profile", "bulk").out
    assert re.search(r"\n +synchronous_commit +local +off +elsewhere +", printed)
    said = "warning: synchronous_commit = local is set by ALTER DATABASE ... SET, which overrides ALTER SYSTEM"
    assert f"{said} Change it" in words(printed)
    assert "ALTER SYSTEM SET synchronous_commit" not in printed
    assert "-- Left out (era5 doctor says why): synchronous_commit" in printed


def test_user_without_privileges_gets_a_diagnosis(here: InProcess, warehouse: Warehouse, host_url: str) -> None:
    with fresh_role(host_url) as role:
        here.set(ERA5_DATABASE_URL=warehouse.url.replace("//postgres@", f"//{role}@"))
        found = here.run("doctor", "--profile", "bulk", "--json").json()
    assert {row["name"]: row["verdict"] for row in found["settings"]}["synchronous_commit"] == "change"
    assert any(f"the user {role} may not change" in finding["text"] for finding in found["findings"])


def test_risks_are_warnings_in_text_and_json(
    here: InProcess, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders are private
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.chdir(folder)
        for file, text in ((".cdsapirc", "key: 123\n"), (".env", f"ERA5_DATABASE_URL={database_url}&password=x\n")):
            (folder / file).write_text(text, encoding="utf-8")
            (folder / file).chmod(0o644)
        here.set(CDSAPI_RC=str(folder / ".cdsapirc"))
        printed = words(here.run("doctor").out)
        for text in (
            "warning: the user postgres of ERA5_DATABASE_URL is a superuser",
            "Run era5 db init --roles once with this URL",
            f"every user of this machine can read {folder}/.cdsapirc, which holds the key",
            f"every user of this machine can read {folder}/.env, which holds secrets (ERA5_DATABASE_URL) "
            f"Run: chmod go-rwx {folder}/.env",
        ):
            assert text in printed
        found = here.run("doctor", "--json").json()["findings"]
    assert [finding["severity"] for finding in found[:3]] == ["warning"] * 3
    assert "superuser" in found[0]["text"]


def test_the_embedded_server_gets_no_warning_about_its_user(home: Home) -> None:
    home.run("db", "init")
    texts = [finding["text"] for finding in home.run("doctor", "--json").json()["findings"]]
    assert not any("superuser" in text for text in texts)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces")
def test_remote_server_has_unknown_machine(database_url: str, tmp_path: Path) -> None:
    """Like a server behind a tunnel or in a container: the address is local, but its processes are not visible."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", ERA5, "doctor"]
    env = environment(tmp_path, ERA5_DATABASE_URL=database_url)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments], env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
        )

    try:
        done = run("--json")
    except FileNotFoundError:
        pytest.skip("needs unshare, of Linux")
    if "unshare:" in done.stderr:
        pytest.skip("needs the right to make a namespace")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["machine"]["known_from"] == {"memory": "unknown", "disk": "unknown"}
    rows = {row["name"]: row for row in found["settings"]}
    assert {row["needs"] for row in rows.values() if row["verdict"] == "unknown"} == {"memory", "disk"}
    assert (rows["shared_buffers"]["advised"], rows["max_locks_per_transaction"]["verdict"]) == (None, "ok")
    remedies = [finding["remedy"] for finding in found["findings"]]
    for option in ("--memory GB", "--disk GB"):
        assert f"Give it: era5 doctor {option}" in remedies
    shown = run("--disk", "20").stdout
    assert "its machine: memory unknown, free disk 20.0 GB (given)" in shown
    assert re.search(r"\n +shared_buffers +\w+ +needs --memory +unknown +", shown)
    assert "Left out, because too little is known about the server's machine: shared_buffers" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        *(("--profile", "fast"), ("--memory", "0"), ("--memory", "x"), ("--memory", "nan")),
        *(("--disk", "0"), ("--disk", "1.5"), ("--disk", "-1"), ("surplus",)),
    ],
    ids=" ".join,
)
def test_usage(here: InProcess, arguments: tuple[str, ...]) -> None:
    assert here.run("doctor", *arguments, code=2).out == ""


def test_sql_and_json_exclude_each_other(here: InProcess) -> None:
    assert_explained(here.run("doctor", "--sql", "--json", code=2), "--sql and --json", "Choose one")


def test_unreachable_server(here: InProcess) -> None:
    here.set(ERA5_DATABASE_URL="postgresql://me:correct-horse@127.0.0.1:9/nowhere")
    printed = here.run("doctor", code=5)
    assert_explained(printed, "me@127.0.0.1:9/nowhere")
    assert "correct-horse" not in printed.err


def test_help_has_examples(here: InProcess) -> None:
    printed = here.run("doctor", "--help").out
    for text in ("Examples:", "era5 doctor --profile bulk --sql > bulk.sql", "reckless", "The command changes nothing"):
        assert text in words(printed)
    assert "\b" not in printed

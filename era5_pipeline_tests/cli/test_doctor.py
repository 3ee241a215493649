"""`era5 doctor`: table, SQL and JSON; servers that are remote or unreachable."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from era5_pipeline_tests.commands import ERA5, InProcess, assert_explained, environment, in_terminal, new_home

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.servers import Host


def test_table_and_sql(here: InProcess, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    printed = here.run("doctor", "--memory", "4000").out
    assert "\x1b" not in printed
    assert "(PostgreSQL 18" in printed.splitlines()[0]
    assert re.search(r"its machine: memory 4000.0 GB, free disk [\d.]+ GB\n", printed)
    assert re.search(r"\n +max_locks_per_transaction +512 +>= 512 +ok +restart", printed)
    assert re.search(r"\n +synchronous_commit +on +off +for one load +reload", printed)
    assert "\nsynchronous_commit: Small transactions do not wait for the disk" in printed
    assert "\n--   ALTER SYSTEM SET synchronous_commit = 'off';\n" in printed


@pytest.mark.skipif(sys.platform != "linux", reason="script is another program elsewhere")
def test_setting_names_are_not_truncated_in_a_narrow_terminal(server_url: str, tmp_path: Path) -> None:
    printed = in_terminal(60, "doctor", cwd=tmp_path, ERA5_DATABASE_URL=server_url)
    assert any(line.startswith("  max_locks_per_transaction ") for line in printed.splitlines())


def test_json_and_sql(here: InProcess, warehouse: Warehouse, host: Host) -> None:
    here.set(ERA5_DATABASE_URL=warehouse.url)
    arguments = ("doctor", "--memory", "64", "--disk", "1000")
    printed = here.run(*arguments, "--json")
    assert printed.err == ""
    found = printed.json()
    assert found["server"].startswith(f"PostgreSQL {host.version}")
    assert found["database"] == warehouse.shown
    assert found["machine"] == {"memory_bytes": 64 << 30, "free_disk_bytes": 1000 << 30}
    rows = {row["name"]: row for row in found["settings"]}
    assert (rows["shared_buffers"]["advised"], rows["max_locks_per_transaction"]["applied_by"]) == ("1GB", "restart")
    assert {"severity", "text", "remedy"} == set(found["findings"][0])
    sql = here.run(*arguments, "--sql").out.splitlines()
    assert found["sql"] == sql
    for line in sql:
        assert re.fullmatch(r"--.*|ALTER SYSTEM SET \w+ = '\w+';|SELECT pg_reload_conf\(\);", line)


def test_risks_are_findings(here: InProcess, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders are private
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.chdir(folder)
        for file, text in ((".cdsapirc", "key: 123\n"), (".env", f"ERA5_DATABASE_URL={database_url}&password=x\n")):
            (folder / file).write_text(text, encoding="utf-8")
            (folder / file).chmod(0o644)
        here.set(CDSAPI_RC=str(folder / ".cdsapirc"))
        printed = here.run("doctor").out
    assert "warning: the user postgres of ERA5_DATABASE_URL is a superuser" in printed
    for file in (".cdsapirc", ".env"):
        assert f"Run: chmod go-rwx {folder}/{file}\n" in printed


def test_the_embedded_server_gets_no_warning_about_its_user() -> None:
    with new_home() as home:
        home.run("db", "init")
        assert home.run("doctor", "--json").json()["findings"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces")
def test_remote_server_has_unknown_machine(database_url: str, tmp_path: Path) -> None:
    """Like a server behind a tunnel or in a container: the address is local, but its processes are not visible."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", ERA5, "doctor", "--disk", "20", "--json"]
    env = environment(tmp_path, ERA5_DATABASE_URL=database_url)
    try:
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    except FileNotFoundError:
        pytest.skip("needs unshare, of Linux")
    if "unshare:" in done.stderr:
        pytest.skip("needs the right to make a namespace")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["machine"] == {"memory_bytes": None, "free_disk_bytes": 20 << 30}
    assert [row["name"] for row in found["settings"] if row["verdict"] == "unknown"] == ["shared_buffers"]


@pytest.mark.parametrize(
    "arguments",
    [
        *(("--profile", "bulk"), ("--memory", "0"), ("--memory", "x"), ("--memory", "nan")),
        *(("--disk", "0"), ("--disk", "1.5"), ("surplus",)),
    ],
    ids=" ".join,
)
def test_usage(here: InProcess, arguments: tuple[str, ...]) -> None:
    assert here.run("doctor", *arguments, code=2).out == ""


def test_sql_and_json_exclude_each_other(here: InProcess) -> None:
    assert_explained(here.run("doctor", "--sql", "--json", code=2), "--sql and --json", "Choose one")

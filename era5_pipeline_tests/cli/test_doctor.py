"""`era5 doctor`: table, SQL and JSON; servers that are remote or unreachable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from era5_pipeline_tests.commands import InProcess, assert_explained

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
    assert "warning: the user postgres of ERA5_DATABASE_URL is a superuser" in printed
    here.set(COLUMNS="60")
    assert any(line.startswith("  max_locks_per_transaction ") for line in here.run("doctor").out.splitlines())


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

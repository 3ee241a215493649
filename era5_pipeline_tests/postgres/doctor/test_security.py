"""Findings about superusers, versions of TimescaleDB with known faults, and files that everybody can read."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.postgres.doctor.diagnosis import diagnose
from era5_pipeline.postgres.doctor.security import file_findings, security_findings
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.postgres.doctor.test_findings import SERVER
from era5_pipeline_tests.servers import fresh_role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.postgres.doctor.server_facts import ServerFacts
    from era5_pipeline_tests.servers import Host

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


def test_the_facts_of_real_servers(warehouse: Warehouse, host: Host) -> None:
    with warehouse.connect() as connection:
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

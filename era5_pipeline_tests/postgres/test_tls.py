"""TLS: a real server that refuses anything else, its certificate checked on every way to it, or refused."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.embedded.processes import server_account
from era5_pipeline.postgres.urls import with_database
from era5_pipeline_tests.commands import InProcess, assert_explained
from era5_pipeline_tests.own_servers import OwnServer, Programs

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = ("--source", "sample", "--area", "-6/106/-6/106", "--from", "2023-02")


def programs_with_tls() -> Programs:
    """The programs of a PostgreSQL of the system: the embedded one is built without TLS."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    if not folders:
        pytest.skip("needs a PostgreSQL of Debian or Ubuntu: apt-get install postgresql")
    account = server_account(Path("/tmp/data"))
    return Programs(Path("/"), folders[-1], account.uid, account.gid, (account.gid,), {})


def openssl(folder: Path, *arguments: str) -> None:
    program = shutil.which("openssl") or pytest.skip("needs openssl")
    subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True, timeout=600)


def make_authority(folder: Path, name: str) -> Path:
    """A certificate authority; returns its certificate."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key")
    openssl(folder, "req", "-x509", *key, "-subj", f"/CN={name}", "-days", "2", "-out", f"{name}.crt")
    return folder / f"{name}.crt"


def make_certificate(folder: Path, authority: str, name: str, subject: str, names: str = "") -> None:
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key")
    openssl(folder, "req", "-new", *key, "-subj", f"/CN={subject}", "-out", f"{name}.csr")
    (folder / "extensions").write_text(f"subjectAltName={names}\n" if names else "", encoding="ascii")
    signed = ("-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial", "-days", "2")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signed, "-extfile", "extensions", "-out", f"{name}.crt")
    (folder / f"{name}.key").chmod(0o600)


@dataclass(frozen=True)
class TlsServer:
    """A server that accepts TLS only; `folder` has the certificates."""

    folder: Path
    port: int

    def url(self, *, host: str = "127.0.0.1", user: str = "postgres", **options: str) -> str:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"postgresql://{user}@{host}:{self.port}/era5?{query}"


@pytest.fixture(scope="module")
def tls() -> Iterator[TlsServer]:
    programs = programs_with_tls()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    home = Path(tempfile.mkdtemp(prefix="era5-tls-", dir="/tmp"))
    server = OwnServer(
        programs, home / "server", {"listen_addresses": "127.0.0.1", "port": str(port)}, namespace=[], disks={}
    )
    try:
        (home / "server").mkdir()
        for name in ("right", "wrong"):
            make_authority(home, name)
        make_certificate(home, "right", "server", "localhost", "IP:127.0.0.1")
        make_certificate(home, "right", "client", "clara")
        if os.geteuid() == 0:
            os.chown(home / "server", programs.uid, programs.gid)
            home.chmod(0o755)
        server.make()
        data = home / "server" / "data"
        for name in ("server.crt", "server.key", "right.crt"):
            shutil.copy(home / name, data / name)
            (data / name).chmod(0o600)
            if os.geteuid() == 0:
                os.chown(data / name, programs.uid, programs.gid)
        (data / "pg_hba.conf").write_text(
            "local all all trust\nhostssl all clara 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 trust\n",
            encoding="ascii",
        )
        with (data / "postgresql.conf").open("a", encoding="ascii") as configuration:
            configuration.write("ssl = on\nssl_ca_file = 'right.crt'\n")
        server.start()
        yield TlsServer(home, port)
    finally:
        server.end()
        shutil.rmtree(home)


def databases(tls: TlsServer) -> list[str]:
    url = with_database(tls.url(sslmode="require"), "postgres")
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE datname ~ '^era5' ORDER BY 1").fetchall()
    return [name for (name,) in rows]


@pytest.mark.parametrize(
    ("named", "options", "message", "remedy"),
    [
        ("127.0.0.1", {"sslmode": "verify-full", "sslrootcert": "wrong.crt"}, "certificate verify failed", "authority"),
        ("127.0.0.1", {"sslmode": "verify-ca", "sslrootcert": "wrong.crt"}, "certificate verify failed", "authority"),
        ("127.0.0.1", {"sslmode": "verify-full", "sslrootcert": "none.crt"}, "does not exist", "sslrootcert"),
        (
            "other.example",
            {"sslmode": "verify-full", "sslrootcert": "right.crt", "hostaddr": "127.0.0.1"},
            'does not match host name "other.example"',
            "the host is the one it names",
        ),
        ("127.0.0.1", {"sslmode": "disable"}, "no encryption", "add sslmode=verify-full"),
    ],
    ids=["wrong CA", "wrong CA, verify-ca", "no file", "other host name", "no TLS"],
)
def test_a_connection_that_is_refused_leaves_nothing(
    tls: TlsServer, here: InProcess, named: str, options: dict[str, str], message: str, remedy: str
) -> None:
    given = options | ({"sslrootcert": str(tls.folder / options["sslrootcert"])} if "sslrootcert" in options else {})
    before = databases(tls)
    here.set(ERA5_DATABASE_URL=tls.url(host=named, **given))
    for arguments in (("load", *SMALL), ("db", "init"), ("status",), ("doctor",)):
        printed = here.run(*arguments, code=5)
        assert_explained(printed, message, remedy)
    assert databases(tls) == before
    assert not list(here.home.rglob("*.parquet"))


def test_every_way_to_the_server_checks_its_certificate(tls: TlsServer, here: InProcess) -> None:
    """The server refuses what is not encrypted: of a URL without its options, some session would fail."""
    url = tls.url(sslmode="verify-full", sslrootcert=str(tls.folder / "right.crt"))
    here.set(ERA5_DATABASE_URL=url)
    assert here.run("db", "url").out.strip() == url
    loaded = here.run("load", *SMALL, "--workers", "2")
    assert " loaded " in loaded.out
    assert databases(tls) == ["era5", "era5_dagster"]
    for arguments in (("status",), ("doctor",), ("db", "init"), ("db", "start")):
        # The printed URL works as it is, and checks certificates just as strictly.
        assert url in here.run(*arguments).out
    assert "2023-02" in here.run("series", "--lat", "-6", "--lon", "106", "--from", "2023-02", "--to", "2023-02").out
    assert here.run("watch", "--seconds", "1", "--json").out
    assert "2023-02" in here.run("plan", "--from", "2023-02", "--to", "2023-02", "--source", "sample").out
    assert "removed" in here.run("drop", "--from", "2023-02", "--yes").out


def test_a_certificate_of_the_client(tls: TlsServer) -> None:
    options = {"sslmode": "verify-full", "sslrootcert": str(tls.folder / "right.crt")}
    mine = {"sslcert": str(tls.folder / "client.crt"), "sslkey": str(tls.folder / "client.key")}
    with psycopg.connect(with_database(tls.url(**options), "postgres"), autocommit=True) as connection:
        connection.execute("CREATE ROLE clara LOGIN")
    try:
        url = with_database(tls.url(user="clara", **options, **mine), "postgres")
        assert Warehouse(url).shown == url
        with Warehouse(url).connect() as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("clara",)
            assert connection.info.server_version
    finally:
        with psycopg.connect(with_database(tls.url(**options), "postgres"), autocommit=True) as connection:
            connection.execute("DROP ROLE clara")

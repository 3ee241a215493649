"""The embedded server: every test starts and stops a real PostgreSQL under a folder of its own."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psutil as _psutil
import psycopg
import psycopg2
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from era5_pipeline.model.errors import LocalDiskError, ServerUnsuitableError, UsageError, WarehouseError
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.doctor.server_facts import Machine
from era5_pipeline.postgres.embedded import processes as embedded_processes
from era5_pipeline.postgres.embedded.cluster import bulk_load_settings
from era5_pipeline.postgres.embedded.server import EmbeddedDatabaseWatch, EmbeddedServer
from era5_pipeline_tests.era5_files import full_disk
from era5_pipeline_tests.warehouse.loads import ask, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

psutil: Any = _psutil  # it comes without types

# Takes a lease, prints the URL, and keeps the lease until its input ends.
# A signal that arrives just before a read would wait with it for the end of the input.
LEASE = """
import select, sys
from pathlib import Path
from era5_pipeline.postgres.embedded.server import EmbeddedServer
with EmbeddedServer(Path(sys.argv[1])).lease() as url:
    print(url, flush=True)
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        pass
"""


# As in a container whose first process reaps no children: the killed server stays a zombie, and keeps its number.
ZOMBIE = """
import ctypes, sys
from pathlib import Path
import psutil, psycopg
from era5_pipeline.postgres.embedded.server import EmbeddedServer
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
server = EmbeddedServer(Path(sys.argv[1]))
server.start()
killed = psutil.Process(int((server.data_folder / "postmaster.pid").read_text().split()[0]))
killed.kill()
with server.lease() as url, psycopg.connect(url) as connection:
    assert killed.status() == psutil.STATUS_ZOMBIE
    print(connection.execute("SELECT 42").fetchone()[0])
assert server.stop()
"""


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """A folder with a path short enough for a socket, which pytest's own may not have."""
    folder = Path(tempfile.mkdtemp(prefix="era5-test-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def template(scratch: Path) -> Path:
    """A home with a data folder, to be copied: creating one takes longer than anything else here."""
    home = scratch / "template"
    with EmbeddedServer(home).lease():
        pass
    return home


@pytest.fixture
def home(scratch: Path, template: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A home with a data folder, on which no server runs before and after the test."""
    home = scratch / f"home-{abs(hash(request.node.name)):x}"
    copy(template, home)
    yield home
    EmbeddedServer(home).stop(force=True)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def leased(scratch: Path, template: Path) -> Iterator[Path]:
    """A home whose server runs, for tests that only look at it."""
    home = scratch / "leased"
    copy(template, home)
    with EmbeddedServer(home).lease():
        yield home


def copy(template: Path, home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", template, home], check=True)  # with owners, which shutil does not keep


def execute(url: str, *statements: LiteralString) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def postmaster(home: Path) -> int:
    return int((home / "postgres/postmaster.pid").read_text().split()[0])


def processes(home: Path) -> list[int]:
    """Every process whose working directory is the server's data folder."""
    ours = str(EmbeddedServer(home).data_folder)
    return [pid for pid in psutil.pids() if folder_of(pid) == ours]


def socket_folder(home: Path) -> Path:
    return Path(str(psycopg.conninfo.conninfo_to_dict(EmbeddedServer(home).url("postgres"))["host"]))


def lease_and_ask(home: Path) -> object:
    with EmbeddedServer(home).lease() as url:
        return ask(url, "SELECT 1")


def folder_of(pid: int) -> str | None:
    try:
        return str(psutil.Process(pid).cwd())
    except psutil.Error:
        return None


@contextmanager
def leasing(home: Path, **env: str) -> Iterator[subprocess.Popen[str]]:
    """Let another process hold a lease in this context."""
    with subprocess.Popen(
        [sys.executable, "-c", LEASE, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | env,
    ) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("postgresql://")
        yield process
        if process.poll() is None:
            process.communicate()
            assert process.returncode == 0


def test_a_lease_starts_the_server_and_stops_it(home: Path) -> None:
    server = EmbeddedServer(home)
    assert not server.is_running()
    with server.lease() as url:
        assert server.is_running()
        assert url == server.url("postgres")
        execute(url, "CREATE DATABASE weather")
        assert ask(server.url("weather"), "SELECT current_database()") == "weather"
    assert not server.is_running()
    assert processes(home) == []
    assert not (home / "postgres/postmaster.pid").exists()
    with pytest.raises(KeyError), server.lease():
        raise KeyError  # raised unchanged
    assert not server.is_running()


def test_the_server_starts_tuned_and_durable(leased: Path) -> None:
    with psycopg.connect(EmbeddedServer(leased).url("postgres")) as connection:
        rows = connection.execute("SELECT name, current_setting(name), source FROM pg_settings").fetchall()
        encoding = connection.execute("SELECT datlocprovider, datlocale FROM pg_database").fetchall()
    actual = {name: value for name, value, _ in rows}
    for name in ("fsync", "full_page_writes", "synchronous_commit", "autovacuum", "data_checksums"):
        assert actual[name] == "on"
    assert (actual["wal_level"], actual["max_wal_senders"], actual["jit"]) == ("minimal", "0", "off")
    assert (actual["timezone" if "timezone" in actual else "TimeZone"], actual["log_timezone"]) == (
        "UTC",
        "UTC",
    )
    assert actual["listen_addresses"] == ""
    # The server has read each of our settings.
    sources = {name.lower(): source for name, _, source in rows}
    wanted = bulk_load_settings(Machine.here(leased))
    assert {sources[name] for name in wanted} <= {"configuration file"}
    # Sorting must not depend on the machine's locale.
    assert set(encoding) == {("b", "C.UTF-8")}


def test_settings_of_the_user_take_precedence_and_are_kept(home: Path) -> None:
    with (home / "postgres/postgresql.conf").open("a") as file:
        file.write("work_mem = '5MB'\n")
    for _ in range(2):
        with EmbeddedServer(home).lease() as url:
            assert ask(url, "SHOW work_mem") == "5MB"
            assert ask(url, "SHOW jit") == "off"
    assert (home / "postgres/postgresql.conf").read_text().count("era5.conf") == 1


def test_a_started_server_runs_until_it_is_stopped(home: Path) -> None:
    server = EmbeddedServer(home)
    url = server.start()
    with server.lease() as leased:
        assert leased == url
    assert server.is_running()
    assert server.stop()
    assert not server.is_running()
    assert processes(home) == []
    assert not server.stop()
    with server.lease():  # `stop` has undone `start`
        pass
    assert not server.is_running()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says which signals a process has yet to take")
def test_stop_waits_for_the_process_although_its_file_is_gone(home: Path) -> None:
    """PostgreSQL removes the file before it ends: here, long before."""
    server = EmbeddedServer(home)
    server.start()
    pid = postmaster(home)
    os.kill(pid, signal.SIGSTOP)
    # A process that has yet to run would receive the signal with the lower number first.
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    stopping = threading.Thread(target=server.stop)
    try:
        stopping.start()
        while not pending(pid) & 1 << (signal.SIGINT - 1):
            assert stopping.is_alive()
            time.sleep(0.01)
        (home / "postgres/postmaster.pid").unlink()
        stopping.join(timeout=0.5)
        assert stopping.is_alive()
    finally:
        os.kill(pid, signal.SIGCONT)
        stopping.join(timeout=600)
    assert processes(home) == []


def pending(pid: int) -> int:
    """The signals that were sent to the process and that it has not taken, as bits."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (mask,) = (line.split()[1] for line in lines if line.startswith("ShdPnd:"))
    return int(mask, 16)


def test_stopping_a_missing_server_creates_no_folder(scratch: Path) -> None:
    assert not EmbeddedServer(scratch / "nowhere").stop()
    assert not EmbeddedServer(scratch / "nowhere").is_running()
    assert not (scratch / "nowhere").exists()


def test_stop_names_the_processes_that_use_the_server(home: Path) -> None:
    server = EmbeddedServer(home)
    server.start()
    with leasing(home) as other:
        with pytest.raises(WarehouseError, match="in use by") as refused:
            server.stop()
        if sys.platform == "linux":
            assert str(other.pid) in refused.value.message
        assert server.is_running()
    assert not server.is_running()  # `stop` has undone `start`


def test_stop_says_that_the_server_is_used_where_the_system_does_not_say_by_whom(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_processes, "_LOCKS", tmp_path / "not there")
    with leasing(home), pytest.raises(WarehouseError, match="in use by another process"):
        EmbeddedServer(home).stop()


def test_a_forced_stop_ends_the_sessions_of_others(home: Path) -> None:
    server = EmbeddedServer(home)
    with leasing(home), psycopg.connect(server.url("postgres")) as connection:
        assert server.stop(force=True)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert processes(home) == []


def test_processes_share_one_server(home: Path) -> None:
    with leasing(home):
        first = postmaster(home)
        with leasing(home):
            assert postmaster(home) == first
        assert ask(EmbeddedServer(home).url("postgres"), "SELECT 1") == 1
    assert processes(home) == []


def test_threads_and_nested_leases_share_one_server(home: Path) -> None:
    server = EmbeddedServer(home)

    def use(_: int) -> tuple[int, int]:
        with server.lease() as outer, EmbeddedServer(home).lease() as inner:
            return ask(outer, "SELECT 1"), ask(inner, "SELECT 1")

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(use, range(6))) == [(1, 1)] * 6
    assert processes(home) == []


def test_processes_that_create_the_same_home_at_once_all_succeed(scratch: Path) -> None:
    home = scratch / "new" / "home"
    with ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen([sys.executable, "-c", LEASE, str(home)], stdin=subprocess.DEVNULL))
            for _ in range(3)
        ]
    assert [process.returncode for process in started] == [0] * 3
    assert processes(home) == []
    assert (home / "postgres/PG_VERSION").exists()


def test_after_kill_9_of_the_server_the_next_lease_restarts_it(home: Path) -> None:
    server = EmbeddedServer(home)
    server.start()
    execute(server.url("postgres"), "CREATE TABLE kept AS SELECT 42 AS answer")
    with psycopg.connect(server.url("postgres"), autocommit=True) as busy:
        # A query that does not notice the death of the postmaster: an orphan that has to be killed.
        thread = threading.Thread(target=swallow_operational_error, args=(busy,))
        thread.start()
        active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
        wait_until(lambda: ask(server.url("postgres"), active) >= 2)
        os.kill(postmaster(home), signal.SIGKILL)
        with server.lease() as url:
            assert ask(url, "SELECT answer FROM kept") == 42
        thread.join()
    assert server.is_running()  # because of `start`
    server.stop()


def swallow_operational_error(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT count(*) FROM generate_series(1, 100_000_000_000)")


def test_repeated_leases_immediately_after_kill_9(home: Path) -> None:
    for _ in range(3):
        with EmbeddedServer(home).lease() as url:
            assert ask(url, "SELECT 1") == 1
            os.kill(postmaster(home), signal.SIGKILL)
    with EmbeddedServer(home).lease() as url:
        assert ask(url, "SELECT 1") == 1
    assert processes(home) == []


def test_after_kill_9_of_a_lease_holder_the_next_lease_stops_the_server(home: Path) -> None:
    with leasing(home) as user:
        user.kill()
        user.wait()
    assert EmbeddedServer(home).is_running()
    with EmbeddedServer(home).lease() as url:
        assert ask(url, "SELECT 1") == 1
    assert processes(home) == []


def test_after_kill_9_of_the_process_that_starts_the_server(home: Path) -> None:
    for delay in (0.2, 0.3):
        with subprocess.Popen([sys.executable, "-c", LEASE, str(home)], stdin=subprocess.PIPE) as starting:
            time.sleep(delay)
            starting.kill()
        with EmbeddedServer(home).lease() as url:
            assert ask(url, "SELECT 1") == 1
        assert not EmbeddedServer(home).is_running()


def test_a_start_whose_process_was_killed_is_waited_for(home: Path, tmp_path: Path) -> None:
    lease_and_ask(home)
    # In place of PostgreSQL's own, which a killed process leaves at work before there is a server.
    program = shutil.copy(shutil.which("sleep") or "", tmp_path / "pg_ctl")
    with (
        subprocess.Popen([program, "600"], cwd=EmbeddedServer(home).data_folder) as starting,
        ThreadPoolExecutor(1) as executor,
    ):
        next_lease = executor.submit(lease_and_ask, home)
        with pytest.raises(TimeoutError):
            next_lease.result(5)
        starting.kill()
        assert next_lease.result() == 1
    assert processes(home) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux a process can adopt the server")
def test_a_killed_server_that_stays_a_zombie_is_restarted(home: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ZOMBIE, str(home)], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "42\n"
    assert processes(home) == []


def test_a_killed_server_whose_process_number_is_in_use_is_restarted(home: Path) -> None:
    with EmbeddedServer(home).lease():
        lines = (home / "postgres/postmaster.pid").read_text().splitlines()
    # As after a power failure: the file exists, and another process (this one) has its number.
    lines[0] = str(os.getpid())
    (home / "postgres/postmaster.pid").write_text("\n".join(lines) + "\n")
    with EmbeddedServer(home).lease() as url:
        assert ask(url, "SELECT 1") == 1


def test_after_kill_9_of_the_process_that_creates_the_data_folder(scratch: Path) -> None:
    home = scratch / "half-made"
    half_made = 0
    while not (home / "postgres").exists() and half_made < 2:
        with subprocess.Popen([sys.executable, "-c", LEASE, str(home)], stdin=subprocess.PIPE) as making:
            while not list(home.glob(".postgres-new-*/PG_VERSION")) and making.poll() is None:
                time.sleep(0.005)
            making.kill()
        half_made += 1
    assert not (home / "postgres").exists()
    # Its initdb may still be running: that must not disturb the next one.
    with EmbeddedServer(home).lease() as url:
        assert ask(url, "SELECT 1") == 1
    assert list(home.glob(".postgres-new-*")) == []


@pytest.mark.parametrize(
    "name",
    [
        """spaces, commas, 'quotes' a $HOME `tilde` "double" \\ back Währung 100% ?&=#""",
        "long/" + "/".join(["a-folder-with-a-rather-long-name"] * 5),
    ],
    ids=["characters", "long"],
)
def test_a_home_may_have_any_path(scratch: Path, template: Path, name: str) -> None:
    home = scratch / name
    copy(template, home)
    server = EmbeddedServer(home)
    folder = socket_folder(home)
    with server.lease() as url, leasing(home):
        assert ask(url, "SELECT 1") == 1
        assert ask(url, "SHOW data_directory") == str(server.data_folder)
        assert "%" not in url
        assert folder.is_dir()
        with create_engine(url, poolclass=NullPool).connect() as connection:
            assert connection.execute(text("SELECT current_user")).scalar() == "postgres"
        psycopg2.connect(url).close()
    assert processes(home) == []
    assert folder.parent == Path("/tmp")
    assert not folder.exists()


def test_a_socket_folder_that_others_may_write_to_is_rejected(scratch: Path, home: Path, template: Path) -> None:
    far = scratch / "squatted" / ("x" * 100)
    copy(template, far)
    server = EmbeddedServer(far)
    folder = socket_folder(far)
    folder.mkdir()
    folder.chmod(0o777)
    try:
        with EmbeddedServer(home).lease():
            (folder / ".s.PGSQL.5432").symlink_to(home / "postgres/.s.PGSQL.5432")
            assert ask(server.url("postgres"), "SELECT 1") == 1
            assert not server.is_running()
            with pytest.raises(WarehouseError, match="not a private folder"), server.lease():
                pass
    finally:
        shutil.rmtree(folder)


def test_postgresqls_environment_variables_are_ignored(home: Path) -> None:
    with leasing(home, PGPORT="1", PGDATA="/nowhere", PGOPTIONS="-c nonsense=1", LC_ALL="xx_XX", TMPDIR="/nowhere"):
        assert ask(EmbeddedServer(home).url("postgres"), "SELECT 1") == 1


def test_only_the_owner_can_access_data_and_socket(leased: Path) -> None:
    assert socket_folder(leased) == EmbeddedServer(leased).data_folder
    assert stat.S_IMODE((leased / "postgres").stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE((leased / "postgres/.s.PGSQL.5432").stat().st_mode) & 0o077 == 0


def test_the_data_folder_of_another_major_version_is_rejected(home: Path) -> None:
    (home / "postgres/PG_VERSION").write_text("16\n")
    with pytest.raises(ServerUnsuitableError, match="created by PostgreSQL 16"), EmbeddedServer(home).lease():
        pass


def test_other_files_are_not_overwritten(scratch: Path) -> None:
    (scratch / "occupied/postgres").mkdir(parents=True)
    (scratch / "occupied/postgres/thesis.txt").write_text("mine")
    with pytest.raises(WarehouseError, match="not PostgreSQL's"), EmbeddedServer(scratch / "occupied").lease():
        pass
    assert (scratch / "occupied/postgres/thesis.txt").read_text() == "mine"


def test_the_error_of_a_server_that_does_not_start_has_its_log(home: Path) -> None:
    with (home / "postgres/postgresql.conf").open("a") as file:
        file.write("nonsense = 1\n")
    with pytest.raises(WarehouseError, match="did not start") as failed, EmbeddedServer(home).lease():
        pass
    assert 'unrecognized configuration parameter "nonsense"' in failed.value.message
    assert str(home / "postgres.log") in failed.value.remedy


def test_a_start_in_vain_is_repeated_by_who_watches_the_server_a_few_times(home: Path) -> None:
    """A server that is killed while it recovers does not start, and nothing is wrong with it."""
    settings_file = home / "postgres/postgresql.conf"
    whole = settings_file.read_text()
    warned: list[str] = []
    server, watch = EmbeddedServer(home), EmbeddedDatabaseWatch(Settings(home=home), warned.append)

    def break_it() -> None:
        os.kill(postmaster(home), signal.SIGKILL)
        settings_file.write_text(f"{whole}nonsense = 1\n")

    with server.lease():
        break_it()
        watch.look()
        assert warned[-1] == "the embedded PostgreSQL did not start"
        settings_file.write_text(whole)
        watch.look()
        assert server.is_running()
        break_it()
        watch.look()
        watch.look()
        with pytest.raises(WarehouseError, match='unrecognized configuration parameter "nonsense"'):
            watch.look()
        settings_file.write_text(whole)


def test_who_watches_the_server_outlasts_a_lack_of_file_descriptors(home: Path) -> None:
    warned: list[str] = []
    server, watch = EmbeddedServer(home), EmbeddedDatabaseWatch(Settings(home=home), warned.append)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with server.lease():
        os.kill(postmaster(home), signal.SIGKILL)
        lowest_free = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
        try:
            for _ in range(10):  # more often than a server may end
                watch.look()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        (warning,) = warned
        assert "no more files can be opened (Too many open files)" in warning
        assert "ulimit -n" in warning
        watch.look()
        assert server.is_running()
        assert warned[1:] == ["the embedded PostgreSQL does not answer: starting it again"]


def test_ctrl_c_during_a_lease_stops_the_server(home: Path) -> None:
    with leasing(home) as user:
        user.send_signal(signal.SIGINT)
        assert user.wait(timeout=600) != 0
    assert processes(home) == []


def test_a_home_that_is_a_file_is_rejected(scratch: Path) -> None:
    (scratch / "file").write_text("")
    for home in (scratch / "file", scratch / "file/within"):
        with pytest.raises(UsageError, match="not a folder"), EmbeddedServer(home).lease():
            pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_home_is_an_error_of_the_disk(scratch: Path) -> None:
    (scratch / "read-only").mkdir(mode=0o500)
    with pytest.raises(LocalDiskError), EmbeddedServer(scratch / "read-only/home").lease():
        pass


def test_a_full_disk_is_an_error_of_the_disk() -> None:
    with full_disk(30 << 20) as disk:
        command = [sys.executable, "-c", LEASE, str(disk / "home")]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode != 0
    assert "LocalDiskError" in done.stderr
    assert "No space left on device" in done.stderr


def test_a_slow_start_and_stop_say_how_long_they_may_last(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("era5_pipeline.postgres.embedded.cluster._SLOW_SECONDS", 0.0)
    with EmbeddedServer(home).lease():
        pass
    said = "\n".join(caplog.messages)
    assert "the embedded PostgreSQL is starting, or recovering from a crash: waiting up to 300 s" in said
    assert "the embedded PostgreSQL writes its memory to disk before it stops: waiting up to 120 s" in said


def test_a_wait_for_another_command_says_how_long_it_may_last(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("era5_pipeline.postgres.embedded.cluster._SLOW_SECONDS", 0.1)
    with (home / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=EmbeddedServer(home).stop)
        waiting.start()
        wait_until(lambda: "is being started or stopped by another command: waiting up to 420 s" in caplog.text)
    waiting.join(240)
    assert not waiting.is_alive()

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# A copy of /etc without the user takes its place in a mount namespace, which ends with the process.
_WITHOUT_THE_USER = """
    cp -a /etc "$1/etc"
    sed -i /^pgserver:/d "$1/etc/passwd" "$1/etc/group" "$1/etc/shadow" "$1/etc/gshadow"
    mount --bind "$1/etc" /etc && exec "$2" -c "$3"
"""
_EIGHT_AT_ONCE = """
import json, multiprocessing, pwd
from pathlib import Path
from era5_pipeline.postgres.embedded.processes import server_account

def ask(barrier, found):
    barrier.wait()
    found.put(server_account(Path("/tmp")).uid)

context = multiprocessing.get_context("fork")
barrier, found = context.Barrier(8), context.Queue()
for _ in range(8):
    context.Process(target=ask, args=(barrier, found)).start()
print(json.dumps([[found.get(timeout=240) for _ in range(8)], pwd.getpwnam("pgserver").pw_uid]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another user")
def test_processes_that_create_the_user_of_the_server_together_agree_on_its_number(tmp_path: Path) -> None:
    command = ["unshare", "--mount", "sh", "-c", _WITHOUT_THE_USER, "sh", str(tmp_path), sys.executable, _EIGHT_AT_ONCE]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip("needs the right to mount")
    assert done.returncode == 0, done.stderr
    numbers, number = json.loads(done.stdout)
    assert numbers == [number] * 8

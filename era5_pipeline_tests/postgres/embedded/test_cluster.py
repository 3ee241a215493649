"""The embedded server's settings: the advice for any server, and what is right for this one alone."""

from __future__ import annotations

import pytest

from era5_pipeline.postgres.doctor.advice import advised_amounts
from era5_pipeline.postgres.doctor.server_facts import Machine
from era5_pipeline.postgres.embedded.cluster import bulk_load_settings

GB = 1 << 30
AMOUNTS = {"MB": 1 << 20, "GB": GB}
DURABLE = {"fsync", "full_page_writes", "synchronous_commit"}


def amount(text: str) -> int:
    return int(text[:-2]) * AMOUNTS[text[-2:]]


@pytest.mark.parametrize("gigabytes", [0.5, 1, 8, 64, 1024])
def test_settings_leave_memory_and_disk_for_others(gigabytes: float) -> None:
    memory = int(gigabytes * GB)
    settings = bulk_load_settings(Machine(memory, cores=4, free_bytes=20 * GB))
    assert amount(settings["shared_buffers"]) == min(memory // 4, GB)
    assert amount(settings["shared_buffers"]) + amount(settings["maintenance_work_mem"]) <= memory / 2
    assert amount(settings["max_wal_size"]) == 2 * GB  # a tenth of the disk
    assert 1 <= int(settings["max_parallel_workers_per_gather"]) <= int(settings["max_parallel_workers"])


def test_settings_follow_the_general_advice_and_stay_durable() -> None:
    machine = Machine(16 * GB, cores=12, free_bytes=500 * GB)
    settings = bulk_load_settings(machine)
    advised = advised_amounts(machine)
    assert advised == {"shared_buffers": "1GB", "max_wal_size": "8GB", "max_locks_per_transaction": "512"}
    assert advised.items() <= settings.items()
    assert (settings["wal_level"], settings["max_wal_senders"]) == ("minimal", "0")
    assert not DURABLE & set(settings)


def test_an_unknown_disk_leaves_the_servers_default() -> None:
    settings = bulk_load_settings(Machine(16 * GB, cores=12, free_bytes=None))
    assert "max_wal_size" not in settings
    assert settings["shared_buffers"] == "1GB"

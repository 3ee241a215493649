from __future__ import annotations

import pytest

from era5_pipeline.warehouse.tuning import Machine, bulk_load_settings

GB = 1 << 30


@pytest.mark.parametrize("gigabytes", [0.5, 1, 8, 64, 1024])
def test_settings_leave_memory_and_disk_for_others(gigabytes: float) -> None:
    memory = int(gigabytes * GB)
    settings = bulk_load_settings(Machine(memory, cores=4, free_bytes=20 * GB))
    megabytes = {name: int(value[:-2]) for name, value in settings.items() if value.endswith("MB")}
    assert megabytes["shared_buffers"] == min(memory // 4, GB) >> 20
    assert megabytes["shared_buffers"] + megabytes["maintenance_work_mem"] <= memory / 2 / (1 << 20)
    assert megabytes["max_wal_size"] == 2048  # a tenth of the disk
    assert 1 <= int(settings["max_parallel_workers_per_gather"]) <= int(settings["max_parallel_workers"])

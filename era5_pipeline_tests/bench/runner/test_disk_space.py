"""Too little room is said before a run, with what it would need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline.bench.runner.disk_space import require_space
from era5_pipeline.model.errors import LocalDiskError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_largest_suite_decides(tmp_path: Path) -> None:
    require_space({"copy": 1000, "sustained": 2000}, {"files": tmp_path})
    with pytest.raises(LocalDiskError) as error:
        require_space({"copy": 1000, "sustained": 10**18}, {"files": tmp_path})
    assert "the suite sustained needs about 1,000,000,001.0 GB for files" in error.value.message
    assert str(tmp_path) in error.value.message
    assert "--rows" in error.value.remedy

"""Checksums as an object store computes them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.sources.cds import download
from era5_pipeline.sources.cds.download import announced_number, digests, has_checksum

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = bytes(range(256)) * 5000


def md5(content: bytes) -> hashlib._Hash:
    return hashlib.md5(content, usedforsecurity=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


def has(path: Path, announced: str) -> bool:
    """Return True if the file has the checksum that the service announces."""
    number = announced_number(announced)
    assert number is not None
    return has_checksum(path, number, md5=digests(path)[0])


def test_digests_equal_those_of_hashlib(path: Path) -> None:
    assert digests(path) == (md5(CONTENT).hexdigest(), hashlib.sha256(CONTENT).hexdigest())


def test_the_checksum_of_a_file_stored_in_one_piece_is_its_md5(path: Path) -> None:
    assert has(path, md5(CONTENT).hexdigest())
    assert not has(path, f"{int(md5(CONTENT).hexdigest(), 16) + 1:x}")


def test_a_checksum_without_its_leading_zeros_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = next(str(n).encode() for n in range(10_000) if md5(str(n).encode()).hexdigest().startswith("00"))
    path.write_bytes(content)
    announced = f"{int(md5(content).hexdigest(), 16):x}"
    assert len(announced) <= 30
    assert has(path, announced)


@pytest.mark.parametrize("part", [100_000, 256_000, len(CONTENT) - 1])
def test_the_checksum_of_a_file_stored_in_parts(path: Path, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "PART_BYTES", (70_000, part))
    parts = [CONTENT[start : start + part] for start in range(0, len(CONTENT), part)]
    # As S3 writes it, with the number of parts; the service leaves that out.
    etag = f'"{md5(b"".join(md5(one).digest() for one in parts)).hexdigest()}-{len(parts)}"'
    assert has(path, etag)
    path.write_bytes(CONTENT[:-1] + b"x")
    assert not has(path, etag)


def test_the_part_size_of_s3fs_is_known(tmp_path: Path) -> None:
    """A file of two parts of 50 MiB, the size that s3fs documents, and a short third one."""
    mib = 1 << 20
    content = bytes(100 * mib) + b"the end"
    path = tmp_path / "file"
    path.write_bytes(content)
    parts = (content[: 50 * mib], content[50 * mib : 100 * mib], b"the end")
    assert has(path, md5(b"".join(md5(one).digest() for one in parts)).hexdigest())


@pytest.mark.parametrize("text", [None, "", "abc", "md5:" + "0" * 32, "f" * 64, "not at all a checksum, this one"])
def test_checksums_of_unknown_kinds_are_ignored(text: str | None) -> None:
    assert announced_number(text) is None

"""Files in the pipeline's home, and their durable copies in the store, if one is set.

Two kinds of files: *data files*, named in a record with their SHA-256, and *records*, small JSON files, written after
the data files that they name. In the store, the key of a data file contains its digest, so objects are never
overwritten with other content, and an object is used only if its digest matches the record. An interrupted upload is
therefore never mistaken for a complete one; if two executors write the same month, the last record wins, with its own
data files.

Without a store, everything here works on the home alone.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from era5_pipeline.runtime.files import REMADE_BYTES, read_json, replacing, sha256_of, write_json
from era5_pipeline.runtime.stores import ObjectStore, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from era5_pipeline.model.settings import Settings

# Digits of the SHA-256 used in keys.
_DIGEST_DIGITS = 16


class DataFile(Protocol):
    """A data file: its local path, whether or not it exists yet, and the expected digest and size."""

    @property
    def path(self) -> Path:
        """Its actual or future path on this machine."""

    @property
    def sha256(self) -> str:
        """Its digest, in hex."""

    @property
    def bytes(self) -> int:
        """Its size."""


@dataclass(frozen=True)
class FileStore:
    """The home and the store behind it; None without a store."""

    home: Path
    store: ObjectStore | None = None

    @classmethod
    def of(cls, settings: Settings) -> FileStore:
        """The file store that the settings name."""
        address = settings.store_address
        if address is None:
            return cls(settings.files_home)
        # The months of a data set are below one folder there, as here.
        of_dataset = "/".join((address.rstrip("/"), *settings.files_home.relative_to(settings.home).parts))
        return cls(settings.files_home, open_store(of_dataset, settings.store_patience_seconds))

    @property
    def is_shared(self) -> bool:
        """True if a store is set."""
        return self.store is not None

    def require(self) -> None:
        """Raise if the store is missing, unreachable or unreadable."""
        if self.store is not None:
            self.store.require()

    def read_record(self, path: Path) -> Any:  # noqa: ANN401  # JSON is any
        """Read the record at this path, from the store or else this machine; None if it is missing or damaged."""
        if self.store is not None:
            content = self.store.read(self._key(path))
            with suppress(json.JSONDecodeError, UnicodeDecodeError):
                if content is not None:
                    return _with_paths(json.loads(content), self._local_path)
        return read_json(path)

    def write_record(
        self,
        path: Path,
        value: Any,  # noqa: ANN401  # JSON is any
        files: Iterable[DataFile] = (),
        *,
        durable_bytes: int = 0,
    ) -> None:
        """Write the record here, as by `replacing`; then upload the data files that it names, and the record last."""
        write_json(path, value, durable_bytes=durable_bytes)
        self.share_record(path, files)

    def share_record(self, path: Path, files: Iterable[DataFile] = ()) -> None:
        """Upload the data files that this machine's record names, then the record; no-op without a store."""
        if self.store is not None and (value := read_json(path)) is not None:
            self._share(self.store, path, value, files)

    def share_facts(self, path: Path, value: Any, files: Iterable[DataFile]) -> None:  # noqa: ANN401
        """Upload a record that this machine does not have, or has differently; no-op without a store."""
        if self.store is not None:
            if read_json(path) is None:
                write_json(path, value)
            self._share(self.store, path, value, files)

    def is_own(self, file: DataFile) -> bool:
        """Return True if the file is below the home; the user's own files are not, and are left alone."""
        return file.path.is_relative_to(self.home)

    def has(self, file: DataFile) -> bool:
        """Return True if the file is here or in the store, judged by size alone."""
        return _size(file.path) == file.bytes or self._is_stored(file)

    def obtain(self, file: DataFile) -> bool:
        """Make sure the file is on local disk, fetching it from the store if needed; False if it exists nowhere.

        A local file is checked by digest, because another executor may have replaced it, or a power failure emptied it;
        a large one without a store by size.
        """
        is_here = _size(file.path) == file.bytes
        if not self.is_own(file) or (self.store is None and not (is_here and file.bytes < REMADE_BYTES)):
            return is_here
        if is_here and sha256_of(file.path) == file.sha256:
            return True
        if self.store is None:
            return False
        key = self._data_key(file)
        if self.store.size_of(key) != file.bytes:
            return False
        file.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(_DamagedError), replacing(file.path) as temporary:
            if self.store.download(key, temporary) != file.sha256:
                raise _DamagedError
            return True  # only after `replacing` has renamed it
        self.store.remove(key)  # damaged: it must not be found when it is made again
        return False

    def discard(self, file: DataFile) -> None:
        """Remove the file here and in the store."""
        file.path.unlink(missing_ok=True)
        self.supersede(file)

    def supersede(self, file: DataFile) -> None:
        """Remove a file from the store after its record names another; the local file at its path stays."""
        if self.store is not None and self.is_own(file):
            self.store.remove(self._data_key(file))

    def release(self, file: DataFile) -> None:
        """Remove the local copy of a file that the store has."""
        if self._is_stored(file):
            file.path.unlink(missing_ok=True)

    def share_picture(self, path: Path) -> None:
        """Upload a picture under its own name; no-op without a store."""
        if self.store is not None and path.is_file():
            self.store.write(self._key(path), path.read_bytes())

    def obtain_picture(self, path: Path) -> None:
        """Fetch a picture, if the store has it."""
        content = None if self.store is None else self.store.read(self._key(path))
        if content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:
                temporary.write_bytes(content)

    def _share(self, store: ObjectStore, path: Path, value: Any, files: Iterable[DataFile]) -> None:  # noqa: ANN401
        for file in files:
            if self.is_own(file) and not self._is_stored(file) and _size(file.path) == file.bytes:
                store.upload(file.path, self._data_key(file))
        key = self._key(path)
        content = (json.dumps(_with_paths(value, self._stored_path), indent=1, sort_keys=True) + "\n").encode()
        if store.read(key) != content:
            store.write(key, content)

    def _is_stored(self, file: DataFile) -> bool:
        if self.store is None or not self.is_own(file):
            return False
        return self.store.size_of(self._data_key(file)) == file.bytes

    def _key(self, path: Path) -> str:
        return path.relative_to(self.home).as_posix()

    def _data_key(self, file: DataFile) -> str:
        key = file.path.relative_to(self.home)
        return key.with_name(f"{key.stem}.{file.sha256[:_DIGEST_DIGITS]}{key.suffix}").as_posix()

    def _stored_path(self, text: str) -> str:
        path = Path(text)
        return path.relative_to(self.home).as_posix() if path.is_relative_to(self.home) else text

    def _local_path(self, text: str) -> str:
        return text if Path(text).is_absolute() or "://" in text else str(self.home / text)


# For sources that are used without settings.
LOCAL = FileStore(Path("/"))


class _DamagedError(Exception):
    """An object's digest differs from its record."""


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _with_paths(value: Any, convert: Any) -> Any:  # noqa: ANN401  # JSON is any
    """Convert each text named `path` in the JSON value: homes differ between machines."""
    if isinstance(value, dict):
        return {
            name: convert(item) if name == "path" and isinstance(item, str) else _with_paths(item, convert)
            for name, item in value.items()
        }
    return [_with_paths(item, convert) for item in value] if isinstance(value, list) else value

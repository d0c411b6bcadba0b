"""Where a lake is published: a bucket, a prefix in one, or a folder, by one set of operations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyarrow import fs

from turnlake.errors import DeliveryError, LakeError
from turnlake.sources.remote import file_system, local_path, parse_url, reason_of

_PIECE_BYTES = 8 << 20
# A file in a folder gets its name when it is whole; an object has none before.
UNFINISHED = ".new"


@dataclass(frozen=True)
class Target:
    """A place to publish to, named by its URL without credentials. Keys are relative to it.

    All methods raise DeliveryError where the store fails.
    """

    url: str
    base: str
    files: Any = field(repr=False)

    @property
    def folder(self) -> Path | None:
        """The folder that it is, None in an object store."""
        return Path(self.base) if self.files.type_name == "local" else None

    def sizes(self) -> dict[str, int]:
        """The bytes of each object there, by key."""
        with self._told("listing it"):
            infos = self.files.get_file_info(fs.FileSelector(self.base, recursive=True, allow_not_found=True))
        start = len(self.base) + 1
        return {info.path[start:]: info.size for info in infos if info.type == fs.FileType.File}

    def read(self, key: str) -> bytes:
        """The content of a small object."""
        with self._told(f"reading {key}"), self.files.open_input_file(self._path(key)) as file:
            return bytes(file.read())

    def write(self, key: str, data: bytes) -> None:
        """Puts a small object there, or in place of the one there: readers see one of the two."""
        with self._put(key) as stream:
            stream.write(data)

    def upload(self, key: str, source: Path, sha256: str) -> None:
        """Puts a file there. LakeError where its content is not that of the digest."""
        digest = hashlib.sha256()
        with source.open("rb") as file, self._put(key) as stream:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
                stream.write(piece)
        if digest.hexdigest() != sha256:
            self.remove(key)
            raise LakeError(f"{source} is damaged. Run `turnlake build --full`, then publish again.")

    def copy(self, key: str, to: str) -> None:
        """Makes a second object of the same content, without moving it through here."""
        with self._told(f"copying {key}"):
            self._make_room(to)
            self.files.copy_file(self._path(key), self._path(to) + self._unfinished)
            self._finish(to)

    def remove(self, key: str) -> None:
        """Removes an object."""
        with self._told(f"removing {key}"):
            self.files.delete_file(self._path(key))

    @property
    def _unfinished(self) -> str:
        return UNFINISHED if self.folder else ""

    def _path(self, key: str) -> str:
        return f"{self.base}/{key}"

    @contextmanager
    def _put(self, key: str) -> Iterator[Any]:
        with self._told(f"writing {key}"):
            self._make_room(key)
            with self.files.open_output_stream(self._path(key) + self._unfinished) as stream:
                yield stream
            self._finish(key)

    def _make_room(self, key: str) -> None:
        # In an object store a folder is nothing, or an object that is in the way of globs.
        if self.folder:
            self.files.create_dir(self._path(key).rpartition("/")[0], recursive=True)

    def _finish(self, key: str) -> None:
        if self.folder:
            self.files.move(self._path(key) + UNFINISHED, self._path(key))

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise DeliveryError(
                f"{self.url} can't be published to: {doing} failed ({reason_of(error)}). What was published before "
                "is whole. Check endpoint and credentials, and run this again: it goes on where it stopped."
            ) from error


def open_target(url: str) -> Target:
    """The target of a URL. SourceError for what is none; DeliveryError where it can't be connected to."""
    path = local_path(url)
    if path is not None:
        folder = Path(path).resolve()
        return Target(folder.as_uri(), str(folder).rstrip("/"), fs.LocalFileSystem())
    place = parse_url(url)
    target = Target(place.url, place.path, None)
    with target._told("connecting"):
        return Target(place.url, place.path, file_system(place))

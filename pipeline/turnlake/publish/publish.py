"""The published state of a lake -> a target: first its files, then the manifest, then all that follows from that."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnlake.api import connect
from turnlake.errors import UsageError
from turnlake.export.copy import write_marts
from turnlake.export.snapshot import Snapshot, snapshot
from turnlake.lake.lock import hold_lock
from turnlake.publish.manifest import (
    MANIFEST,
    Published,
    dump_manifest,
    is_ours,
    keys_to_keep,
    make_manifest,
    read_manifest,
)
from turnlake.publish.target import Target


@dataclass(frozen=True)
class Outcome:
    """What publishing did: the manifest in place, whether it is a new one, and the keys sent, copied and removed."""

    manifest: Mapping[str, Any]
    is_news: bool
    uploaded: tuple[Published, ...]
    copied: tuple[str, ...]
    removed: tuple[str, ...]


def publish(
    lake: Path,
    target: Target,
    *,
    memory: str | None = None,
    threads: int | None = None,
    on_wait: Callable[[str], None] | None = None,
    on_table: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """Publishes the lake's database and the state it reads. Another publishing of the same lake is waited for.

    LakeError without a lake; UsageError where the target holds what is of no publishing; DeliveryError where the
    store fails: then the state published before is whole, and the next call goes on.
    """
    connect(lake).close()  # tells what is wrong with the lake before the lock is made in its folder
    lake = lake.expanduser().resolve()
    if target.folder and (target.folder.is_relative_to(lake) or lake.is_relative_to(target.folder)):
        raise UsageError(f"{target.url} and the lake {lake} lie in one another: name another folder")
    with hold_lock(lake / ".publish-lock", on_wait=on_wait, who="another publish"):
        found = target.sizes()
        before = _before(target, found)
        with (
            tempfile.TemporaryDirectory(prefix="turnlake-publish-") as scratch,
            snapshot(lake, Path(scratch, "spill"), memory, threads) as state,
        ):
            files = []
            for file in _files(state, Path(scratch)):
                files.append(file)
                on_table(1)
            return _publish(target, files, state, found, before)


def _before(target: Target, found: Mapping[str, int]) -> dict[str, Any] | None:
    """The manifest in place. UsageError where there is none, and the target holds anything else than our files."""
    if MANIFEST in found:
        return read_manifest(target.read(MANIFEST), target.url)
    if foreign := sorted(key for key in found if not is_ours(key)):
        raise UsageError(f"{target.url} holds {foreign[0]}, which is of no publishing: name an empty place")
    return None


def _files(state: Snapshot, scratch: Path) -> Iterator[Published]:
    """The files of the raw tables as they are in the state, and one of each mart, made now."""
    for part in state.state.parts():
        source = state.state.path / part.table / part.name
        yield Published(f"raw.{part.table}", source.stem, source, part.bytes, part.sha256)
    for name, written in write_marts(state, scratch, None):
        for file in written.files:
            source = scratch / file["path"]
            yield Published(name, source.stem, source, file["bytes"], file["sha256"])


def _publish(
    target: Target, files: list[Published], state: Snapshot, found: Mapping[str, int], before: dict[str, Any] | None
) -> Outcome:
    manifest = make_manifest(files, state.state.id, state.currency, before)
    is_news = before is None or before["id"] != manifest["id"]
    if before is not None and not is_news:
        manifest = before
    uploaded = [file for file in files if found.get(file.path) != file.bytes]
    for file in uploaded:
        target.upload(file.path, file.source, file.sha256)
    if is_news:
        target.write(MANIFEST, dump_manifest(manifest))
    # From here on the new state is what readers see; the rest is done again by the next call, if this one ends here.
    copied = [file for file in files if found.get(file.in_folder) != file.bytes]
    for file in copied:
        target.copy(file.path, file.in_folder)
    stale = sorted(key for key in found.keys() - keys_to_keep(manifest) if is_ours(key))
    for key in stale:
        target.remove(key)
    return Outcome(manifest, is_news, tuple(uploaded), tuple(file.in_folder for file in copied), tuple(stale))

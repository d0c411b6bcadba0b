"""From sources to log files: which files below a SOURCE are logs, and why the others are not.

A source on disk is walked, one in an object store is listed; what the files of a folder are is decided by one class
for both. Nothing is opened but archives, databases, and a SOURCE file whose name does not say what it is.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote

from turnlake.findings import Finding
from turnlake.sources.archive import Listing, list_entries
from turnlake.sources.container import SQLITE_MAGIC, open_at
from turnlake.sources.logfile import LogFile, Role, role_of, shown_path
from turnlake.sources.remote import Access, Place, StoredObject, StoreError, is_url, look, objects_below
from turnlake.sources.source import Source, merge_sources

_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")

Kind = Literal["folder", "log", "archive", "store", "nothing"]


class Probed(NamedTuple):
    """What one source turned out to be and to hold."""

    source: str
    place: str
    kind: Kind
    folder_count: int
    log_count: int


class FoundFile(NamedTuple):
    """A file whose name means something to us; `real` is its path with links resolved."""

    path: str
    real: str
    role: Role
    size: int
    mtime_ns: int


class Search:
    """The search of one source. It decides what each file is; how files are found is left to its subclasses."""

    def __init__(self, source: Source, root: str, access: Access = ()) -> None:
        self.source = source
        self.root = root
        self.access = access
        self.base = self.root.rstrip("/") + "/"
        self.logs: list[LogFile] = []
        self.findings: list[tuple[str, Finding]] = []

    def run(self) -> Probed:
        """Finds the source's logs."""
        raise NotImplementedError

    def probed(self, kind: Kind, folder_count: int) -> Probed:
        """What was found, once all of it is."""
        return Probed(self.source.name, self.source.place, kind, folder_count, len(self.logs))

    def note(self, os_path: str, code: str, detail: str) -> None:
        """A finding about a place."""
        self.findings.append((shown_path(os_path), Finding(code, detail)))

    def take_named(self, name: str, size: int, mtime_ns: int) -> Literal["log", "archive", "store"]:
        """Takes a SOURCE that is a file: whoever names it means it, so any name will do. OSError as `open_at`."""
        if self.is_archive(name):
            self.read_archive(self.root, shown_path(name), mtime_ns)
            return "archive"
        if self.is_store(name):
            self.read_store(self.root, shown_path(name), is_named=True)
            return "store"
        self.logs.append(self.log(self.root, shown_path(name), size, mtime_ns))
        return "log"

    def is_archive(self, name: str) -> bool:
        """Whether the SOURCE file is a ZIP, by name or first bytes."""
        role = role_of(name)
        if role in ("export", "archive"):
            return True
        if role in ("canonical", "loose"):
            return False
        with open_at(self.root, self.access) as file:
            return file.read(4) in _ZIP_MAGIC

    def is_store(self, name: str) -> bool:
        """Whether the SOURCE file is an SQLite database, by its first bytes."""
        if role_of(name) in ("canonical", "loose"):
            return False
        with open_at(self.root, self.access) as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC

    def take(self, folder: str, files: list[FoundFile]) -> None:
        """Sorts a folder's files into logs and findings."""
        if len(files) == 1 and files[0].role == "canonical":
            # Nearly every folder, so it is worth its own line.
            self.take_log(files[0])
            return
        roles = [file.role for file in files]
        if "deleted" in roles:
            self.note(folder, "deleted_marker", "marked as deleted; its logs are not read")
        else:
            for file in files:
                self.take_file(file, is_session="canonical" in roles)
            self.note_mixed({file.path for file in files if file.role in ("canonical", "loose")})

    def take_file(self, file: FoundFile, is_session: bool) -> None:
        """Takes a file that is a log, or notes why it is none."""
        if file.role in ("canonical", "export", "store") or (file.role == "loose" and not is_session):
            self.take_log(file)
        else:
            self.note(file.path, "ignored_file", _WHY_IGNORED[file.role])

    def take_log(self, file: FoundFile) -> None:
        """Takes a log, archive or store; where it has two names, perhaps later."""
        self.add(file)

    def add(self, file: FoundFile) -> None:
        """Adds the logs that a file is or holds."""
        shown = shown_path(self.below(file.path))
        match file.role:
            case "export":
                self.read_archive(file.path, shown, file.mtime_ns)
            case "store":
                self.read_store(file.real, shown, is_named=False)
            case _:
                self.logs.append(self.log(file.path, shown, file.size, file.mtime_ns))
        if file.role == "loose":
            self.note(file.path, "flat_layout", "a log that is not in a session folder")

    def note_mixed(self, paths: set[str]) -> None:
        """Notes logs that are there both raw and compressed."""
        for path in paths:
            if path + ".zstd" in paths:
                self.note(path, "mixed_compression", "stored a second time in compressed form, as .zstd")

    def below(self, os_path: str) -> str:
        """The path of a file below its source."""
        return os_path[len(self.base) :]

    def read_archive(self, os_path: str, shown: str, mtime_ns: int) -> None:
        """Adds the logs of an export ZIP."""
        try:
            with open_at(os_path, self.access) as file:
                listing = list_entries(file)
        except StoreError as error:
            # As with a folder, it is unknown what would have been in it.
            self.note(os_path, "unreadable_folder", reason(error))
            return
        except OSError as error:
            self.note(os_path, "unreadable_file", reason(error))
            return
        self.add_entries(os_path, shown, listing, mtime_ns)

    def read_store(self, os_path: str, shown: str, *, is_named: bool) -> None:
        """Adds the sessions of an SQLite store."""
        # Most sources hold no store: they are spared the import of sqlite3.
        from turnlake.sources.sqlite import list_sessions

        if is_url(os_path):
            detail = "an SQLite store is read from a disk only: copy it to one and name the copy"
            self.note(os_path, "store_unreadable", detail)
            return
        try:
            listing, mtime_ns = list_sessions(os_path, is_named=is_named)
        except OSError as error:
            self.note(os_path, "store_unreadable", reason(error))
            return
        self.add_entries(os_path, shown, listing, mtime_ns, is_store=True)

    def add_entries(self, os_path: str, shown: str, listing: Listing, mtime_ns: int, *, is_store: bool = False) -> None:
        """Adds what an archive or store lists, and its findings."""
        place = shown_path(os_path)
        for name, finding in listing.findings:
            self.findings.append((place if name is None else f"{place}!/{name}", finding))
        for entry in listing.entries:
            log = self.log(os_path, f"{shown}!/{entry.name}", entry.size, mtime_ns, entry.name)
            self.logs.append(replace(log, is_in_store=is_store))

    def log(self, os_path: str, path: str, size: int, mtime_ns: int, entry: str | None = None) -> LogFile:
        """A log of this source."""
        source = self.source
        return LogFile(source.name, source.machine, path, os_path, entry, size, mtime_ns, self.access)


_WHY_IGNORED: dict[Role, str] = {
    "archive": "an archive not named dsh-session-*.zip is read only if it is named as a SOURCE",
    "lookalike": "almost a log's name: the harness writes session.jsonl and session.vN.jsonl, N from 1 on",
    "loose": "not a log's name, in a folder with a session's logs",
    "stray": "neither .jsonl nor .jsonl.zstd",
}


def reason(error: OSError) -> str:
    """Why it can't be read, in few words."""
    return error.strerror or str(error)


# The harness uses two levels below its root; the rest is for roots put together by people.
MAX_DEPTH = 8


class FolderSearch(Search):
    """The search of a source on disk. Folders are walked under their real path and never through a link."""

    def __init__(self, source: Source, root: Path) -> None:
        super().__init__(source, os.path.realpath(root))
        # The name given, not that of the file it may link to, is the one that was chosen for it.
        self.name = root.name
        self.linked: list[FoundFile] = []

    def run(self) -> Probed:
        """Finds the logs below the folder, or takes the file."""
        if not Path(self.root).is_dir():
            return self.probed(self.read_file(), 0)
        folder_count = self.read_tree()
        self.add_linked()
        return self.probed("folder", folder_count)

    def read_file(self) -> Kind:
        """Takes the one file that is the SOURCE; what it is."""
        try:
            status = Path(self.root).stat()
            if stat.S_ISREG(status.st_mode):
                return self.take_named(self.name, status.st_size, status.st_mtime_ns)
        except OSError as error:
            self.note(self.root, "unreadable_file", reason(error))
            return "nothing"
        self.note(self.root, "not_a_regular_file", "neither a folder nor a regular file")
        return "nothing"

    def read_tree(self) -> int:
        """Reads the folders from the root down; how many."""
        count = 0
        todo = [(self.root, 0)]
        while todo:
            folder, depth = todo.pop()
            count += 1
            for path in self.read_folder(folder):
                if depth < MAX_DEPTH:
                    todo.append((path, depth + 1))
                else:
                    self.note(path, "folder_too_deep", f"more than {MAX_DEPTH} levels below its source")
        return count

    def read_folder(self, folder: str) -> list[str]:
        """Takes the logs of one folder; the paths of the folders in it."""
        subfolders: list[str] = []
        files: list[FoundFile] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        subfolders.append(entry.path)
                        continue
                    role = role_of(entry.name)
                    if (role is not None or entry.is_symlink()) and (file := self.readable(entry, role)):
                        files.append(file)
        except OSError as error:
            self.note(folder, "unreadable_folder", reason(error))
        self.take(folder, files)
        return subfolders

    def readable(self, entry: os.DirEntry[str], role: Role | None) -> FoundFile | None:
        """The entry as a file fit to be read; None, and perhaps a finding, where it is none."""
        try:
            status = entry.stat()
        except OSError as error:
            if role is not None:
                self.note(entry.path, "unreadable_file", reason(error))
            return None
        if role is not None and stat.S_ISREG(status.st_mode) and not entry.is_symlink():
            return FoundFile(entry.path, entry.path, role, status.st_size, status.st_mtime_ns)
        real = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
        is_folder = stat.S_ISDIR(status.st_mode)
        if role is None and not is_folder:
            return None
        if real != self.root and not real.startswith(self.base):
            self.note(entry.path, "symlink_outside", "leads out of its source; name its target as a SOURCE to read it")
            return None
        if role is None or is_folder:
            # A folder inside the source is walked under its own path.
            return None
        if not stat.S_ISREG(status.st_mode):
            self.note(entry.path, "not_a_regular_file", "a log is a regular file")
            return None
        return FoundFile(entry.path, real, role, status.st_size, status.st_mtime_ns)

    def take_log(self, file: FoundFile) -> None:
        """Takes a log; one behind a link later, when all others are known."""
        if file.real == file.path:
            self.add(file)
        else:
            self.linked.append(file)

    def add_linked(self) -> None:
        """Adds what was found through links, unless the file is there under another name."""
        known = {log.os_path for log in self.logs}
        for file in sorted(self.linked, key=lambda file: file.path):
            if file.real not in known:
                known.add(file.real)
                self.add(file)


class BucketSearch(Search):
    """The search of a source in an object store. One listing tells all; there are no links, and no depth."""

    def __init__(self, source: Source, root: Place) -> None:
        super().__init__(source, root.url, root.access)
        self.top = root

    def run(self) -> Probed:
        """Finds the logs among the objects below the URL."""
        try:
            stored = look(self.top)
            if stored is not None:
                name = self.top.path.rpartition("/")[2]
                return self.probed(self.take_named(name, stored.size, stored.mtime_ns), 0)
            return self.probed("folder", self.read_listing(objects_below(self.top)))
        except OSError as error:
            self.note(self.root, "unreadable_folder", reason(error))
            return self.probed("nothing", 0)

    def read_listing(self, objects: list[StoredObject]) -> int:
        """Takes the logs folder by folder; how many folders hold anything."""
        folders: dict[str, list[FoundFile]] = defaultdict(list)
        for stored in objects:
            folder, _, name = stored.key.rpartition("/")
            files = folders[folder]
            if (role := role_of(name)) is not None:
                url = self.top.child(stored.key).url
                files.append(FoundFile(url, url, role, stored.size, stored.mtime_ns))
        for folder, files in folders.items():
            self.take(self.top.child(folder).url if folder else self.root, files)
        return len(folders)

    def below(self, os_path: str) -> str:
        """Where it is below the source, as the store names it."""
        return unquote(super().below(os_path))


@dataclass(frozen=True, slots=True)
class Discovery:
    """The logs of all sources by (source, path), and findings by place: what was left out, or is odd, and why."""

    logs: tuple[LogFile, ...]
    findings: tuple[tuple[str, Finding], ...]
    probed: tuple[Probed, ...]


def find_logs(sources: Sequence[Source]) -> Discovery:
    """All logs of the sources, whatever a SOURCE is: sessions root, project, session folder, log file or export ZIP.

    Reading stops at nothing: what can't be looked at is a finding. SourceError for names that contradict each other.
    """
    searches = [_search(source) for source in merge_sources(sources)]
    probed = tuple(search.run() for search in searches)
    logs = sorted((log for search in searches for log in search.logs), key=lambda log: (log.source, log.path))
    findings = sorted(
        (found for search in searches for found in search.findings),
        key=lambda found: (found[0], found[1].code, found[1].detail),
    )
    return Discovery(tuple(logs), tuple(findings), probed)


def _search(source: Source) -> Search:
    return BucketSearch(source, source.root) if isinstance(source.root, Place) else FolderSearch(source, source.root)

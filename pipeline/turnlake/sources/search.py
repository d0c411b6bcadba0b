"""What the files of a source are, however they were found: logs, archives, stores, or why none of these."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

from turnlake.findings import Finding
from turnlake.sources.archive import Listing, list_entries
from turnlake.sources.container import SQLITE_MAGIC, open_at
from turnlake.sources.layout import Role, role_of, shown_path
from turnlake.sources.logfile import LogFile
from turnlake.sources.remote import Access, StoreError, is_url
from turnlake.sources.source import Source

_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")

Kind = Literal["folder", "log", "archive", "store", "nothing"]


class Probed(NamedTuple):
    """What one source turned out to be and to hold."""

    source: str
    place: str
    kind: Kind
    folder_count: int
    log_count: int


class Found(NamedTuple):
    """A file whose name means something to us; `real` is its path with links resolved."""

    path: str
    real: str
    role: Role
    size: int
    mtime_ns: int


class Search:
    """The search of one source: what its files are, however they were found."""

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

    def take(self, folder: str, files: list[Found]) -> None:
        """Sorts a folder's files into logs and findings."""
        roles = [file.role for file in files]
        if roles == ["canonical"]:
            # Nearly every folder, so it is worth its own line.
            self.take_log(files[0])
        elif "deleted" in roles:
            self.note(folder, "deleted_marker", "marked as deleted; its logs are not read")
        else:
            for file in files:
                self.take_file(file, is_session="canonical" in roles)
            self.note_mixed({file.path for file in files if file.role in ("canonical", "loose")})

    def take_file(self, file: Found, is_session: bool) -> None:
        """Takes a file that is a log, or notes why it is none."""
        if file.role in ("canonical", "export", "store") or (file.role == "loose" and not is_session):
            self.take_log(file)
        else:
            self.note(file.path, "ignored_file", _WHY_IGNORED[file.role])

    def take_log(self, file: Found) -> None:
        """Takes a log, archive or store."""
        self.add(file)

    def add(self, file: Found) -> None:
        """Adds the logs that a file is or holds."""
        shown = shown_path(self.below(file.path))
        if file.role == "export":
            self.read_archive(file.path, shown, file.mtime_ns)
            return
        if file.role == "store":
            self.read_store(file.real, shown, is_named=False)
            return
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
        # Most sources hold no store, so that none is spared the modules it takes.
        from turnlake.sources.store import list_sessions

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

"""From sources to log files: which files below a SOURCE are logs, and why the others are not.

Nothing is opened but archives, and a SOURCE file whose name does not say what it is.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from turnlake.findings import Finding
from turnlake.logs.archive import list_entries
from turnlake.logs.container import open_regular
from turnlake.logs.layout import Role, generation_of, role_of, shown_path
from turnlake.logs.source import Source, merge_sources

# The harness uses two levels below its root; the rest is for roots put together by people.
MAX_DEPTH = 8
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")


# Asked for several times a log by each build, also by one that finds nothing new.
@lru_cache(maxsize=1 << 17)
def _log_id(source: str, path: str) -> str:
    return hashlib.sha256(f"{source}\0{path}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log to read. `path` names it below its source, `os_path` and `entry` say what to open."""

    source: str
    machine: str | None
    path: str
    os_path: str
    entry: str | None
    size: int
    mtime_ns: int

    @property
    def log_id(self) -> str:
        """What identifies the log in a lake: 16 hex digits over the source's name and the path."""
        return _log_id(self.source, self.path)

    @property
    def file(self) -> Path:
        """The absolute path to open; of a log in an archive the archive's."""
        return Path(self.os_path)

    @property
    def place(self) -> str:
        """Where the log is, as findings name it: the shown absolute path, `archive.zip!/entry` in an archive."""
        shown = shown_path(self.os_path)
        return shown if self.entry is None else f"{shown}!/{self.entry}"

    @property
    def file_name(self) -> str:
        """Name of the file, or of the entry without its folders."""
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The folder the log lies in, below its source: all generations of a session share it."""
        return self.path.rpartition("/")[0]

    @property
    def generation(self) -> int | None:
        """The generation the name states; None for a name that is not canonical."""
        return generation_of(self.file_name)

    @property
    def is_canonical(self) -> bool:
        """Whether the harness would take the file for a session's log by its name."""
        return self.generation is not None


class Probed(NamedTuple):
    """What one source turned out to be and to hold."""

    source: str
    place: str
    kind: Literal["folder", "log", "archive", "nothing"]
    folder_count: int
    log_count: int


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
    walks = [_Walk(source) for source in merge_sources(sources)]
    probed = tuple(walk.run() for walk in walks)
    logs = sorted((log for walk in walks for log in walk.logs), key=lambda log: (log.source, log.path))
    findings = sorted(
        (found for walk in walks for found in walk.findings),
        key=lambda found: (found[0], found[1].code, found[1].detail),
    )
    return Discovery(tuple(logs), tuple(findings), probed)


class _File(NamedTuple):
    """A file whose name means something to us; `real` is its path with links resolved."""

    path: str
    real: str
    role: Role
    status: os.stat_result


class _Walk:
    """The search of one source. Folders are walked under their real path and never through a link."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.root = os.path.realpath(source.root)
        self.base = self.root.rstrip("/") + "/"
        self.logs: list[LogFile] = []
        self.findings: list[tuple[str, Finding]] = []
        self.linked: list[_File] = []

    def run(self) -> Probed:
        folder_count = 0
        kind: Literal["folder", "log", "archive", "nothing"] = "folder"
        if Path(self.root).is_dir():
            folder_count = self.read_tree()
            self.add_linked()
        else:
            kind = self.read_file()
        return Probed(self.source.name, shown_path(str(self.source.root)), kind, folder_count, len(self.logs))

    def note(self, os_path: str, code: str, detail: str) -> None:
        self.findings.append((shown_path(os_path), Finding(code, detail)))

    def read_file(self) -> Literal["log", "archive", "nothing"]:
        """Takes a SOURCE that is a file: whoever names it means it, so any name will do."""
        # The name given, not that of the file it may link to, is the one that was chosen for it.
        name = self.source.root.name
        try:
            status = Path(self.root).stat()
            is_archive = self.is_archive(name, status)
        except OSError as error:
            self.note(self.root, "unreadable_file", _reason(error))
            return "nothing"
        if is_archive is None:
            self.note(self.root, "not_a_regular_file", "neither a folder nor a regular file")
            return "nothing"
        if is_archive:
            self.read_archive(self.root, shown_path(name), status)
            return "archive"
        self.logs.append(self.log(self.root, shown_path(name), status))
        return "log"

    def is_archive(self, name: str, status: os.stat_result) -> bool | None:
        """Whether the SOURCE file is a ZIP, by name or first bytes; None for what is no regular file."""
        if not stat.S_ISREG(status.st_mode):
            return None
        role = role_of(name)
        if role in ("export", "archive"):
            return True
        if role in ("canonical", "loose"):
            return False
        with open_regular(self.root) as file:
            return file.read(4) in _ZIP_MAGIC

    def read_tree(self) -> int:
        """Reads the folders from the root down; how many."""
        count = 0
        todo = [(self.root, 0)]
        while todo:
            folder, depth = todo.pop()
            count += 1
            subfolders = self.read_folder(folder)
            if depth < MAX_DEPTH:
                todo.extend((path, depth + 1) for path in subfolders)
                continue
            for path in subfolders:
                self.note(path, "folder_too_deep", f"more than {MAX_DEPTH} levels below its source")
        return count

    def read_folder(self, folder: str) -> list[str]:
        """Takes the logs of one folder; the paths of the folders in it."""
        subfolders: list[str] = []
        files: list[_File] = []
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
            self.note(folder, "unreadable_folder", _reason(error))
        self.take(folder, files)
        return subfolders

    def readable(self, entry: os.DirEntry[str], role: Role | None) -> _File | None:
        """The entry as a file fit to be read; None, and perhaps a finding, where it is none."""
        try:
            status = entry.stat()
        except OSError as error:
            if role is not None:
                self.note(entry.path, "unreadable_file", _reason(error))
            return None
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
        return _File(entry.path, real, role, status)

    def take(self, folder: str, files: list[_File]) -> None:
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

    def take_file(self, file: _File, is_session: bool) -> None:
        if file.role in ("canonical", "export") or (file.role == "loose" and not is_session):
            self.take_log(file)
        else:
            self.note(file.path, "ignored_file", _WHY_IGNORED[file.role])

    def take_log(self, file: _File) -> None:
        if file.real == file.path:
            self.add(file)
        else:
            self.linked.append(file)

    def add(self, file: _File) -> None:
        shown = shown_path(file.path[len(self.base) :])
        if file.role == "export":
            self.read_archive(file.path, shown, file.status)
            return
        self.logs.append(self.log(file.path, shown, file.status))
        if file.role == "loose":
            self.note(file.path, "flat_layout", "a log that is not in a session folder")

    def note_mixed(self, paths: set[str]) -> None:
        for path in paths:
            if path + ".zstd" in paths:
                self.note(path, "mixed_compression", "stored a second time in compressed form, as .zstd")

    def add_linked(self) -> None:
        """Adds what was found through links, unless the file is there under another name."""
        known = {log.os_path for log in self.logs}
        for file in sorted(self.linked, key=lambda file: file.path):
            if file.real not in known:
                known.add(file.real)
                self.add(file)

    def read_archive(self, os_path: str, shown: str, status: os.stat_result) -> None:
        try:
            with open_regular(os_path) as file:
                listing = list_entries(file)
        except OSError as error:
            self.note(os_path, "unreadable_file", _reason(error))
            return
        place = shown_path(os_path)
        for name, finding in listing.findings:
            self.findings.append((place if name is None else f"{place}!/{name}", finding))
        for entry in listing.entries:
            path = f"{shown}!/{entry.name}"
            source = self.source
            self.logs.append(
                LogFile(source.name, source.machine, path, os_path, entry.name, entry.size, status.st_mtime_ns)
            )

    def log(self, os_path: str, path: str, status: os.stat_result) -> LogFile:
        source = self.source
        return LogFile(source.name, source.machine, path, os_path, None, status.st_size, status.st_mtime_ns)


_WHY_IGNORED: dict[Role, str] = {
    "archive": "an archive not named dsh-session-*.zip is read only if it is named as a SOURCE",
    "lookalike": "almost a log's name: the harness writes session.jsonl and session.vN.jsonl, N from 1 on",
    "loose": "not a log's name, in a folder with a session's logs",
    "stray": "neither .jsonl nor .jsonl.zstd",
}


def _reason(error: OSError) -> str:
    return error.strerror or str(error)

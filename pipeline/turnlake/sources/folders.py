"""The search of a source on disk: folders, links, files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from turnlake.sources.layout import Role, role_of
from turnlake.sources.search import Found, Kind, Probed, Search, reason
from turnlake.sources.source import Source

# The harness uses two levels below its root; the rest is for roots put together by people.
MAX_DEPTH = 8


class FolderSearch(Search):
    """The search of a source on disk. Folders are walked under their real path and never through a link."""

    def __init__(self, source: Source, root: Path) -> None:
        super().__init__(source, os.path.realpath(root))
        # The name given, not that of the file it may link to, is the one that was chosen for it.
        self.name = root.name
        self.linked: list[Found] = []

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
        files: list[Found] = []
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

    def readable(self, entry: os.DirEntry[str], role: Role | None) -> Found | None:
        """The entry as a file fit to be read; None, and perhaps a finding, where it is none."""
        try:
            status = entry.stat()
        except OSError as error:
            if role is not None:
                self.note(entry.path, "unreadable_file", reason(error))
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
        return Found(entry.path, real, role, status.st_size, status.st_mtime_ns)

    def take_log(self, file: Found) -> None:
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

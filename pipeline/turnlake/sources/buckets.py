"""The search of a source in an object store."""

from __future__ import annotations

from collections import defaultdict
from urllib.parse import unquote

from turnlake.sources.layout import role_of
from turnlake.sources.remote import Place, Stored, look, objects_below
from turnlake.sources.search import Found, Probed, Search, reason
from turnlake.sources.source import Source


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

    def read_listing(self, objects: list[Stored]) -> int:
        """Takes the logs folder by folder; how many folders hold anything."""
        folders: dict[str, list[Found]] = defaultdict(list)
        for stored in objects:
            folder, _, name = stored.key.rpartition("/")
            files = folders[folder]
            if (role := role_of(name)) is not None:
                url = self.top.child(stored.key).url
                files.append(Found(url, url, role, stored.size, stored.mtime_ns))
        for folder, files in folders.items():
            self.take(self.top.child(folder).url if folder else self.root, files)
        return len(folders)

    def below(self, os_path: str) -> str:
        """Where it is below the source, as the store names it."""
        return unquote(super().below(os_path))

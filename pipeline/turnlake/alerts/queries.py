"""Which alerts there are: the files of `sql/alerts`, and those of the user's own folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnlake.errors import UsageError, nearest
from turnlake.models.folder import sql_folder

_KEY = re.compile(r"^-- key: (.+)$", re.MULTILINE)
# What tells two things of an alert apart that does not say what does.
_DEFAULT_KEY = ("session_id", "turn", "at")


@dataclass(frozen=True)
class AlertQuery:
    """An alert by its file; the name is that of the file."""

    name: str
    path: Path

    def read(self) -> tuple[str, tuple[str, ...]]:
        """The SQL, and the columns that tell one thing from another. Raises OSError, UnicodeDecodeError."""
        sql = self.path.read_text(encoding="utf-8")
        stated = _KEY.search(sql)
        return sql, tuple(word.strip() for word in stated[1].split(",")) if stated else _DEFAULT_KEY


def find_queries(folders: Iterable[Path] = (), only: Sequence[str] = ()) -> list[AlertQuery]:
    """The alerts by name, all or only those named; a file of a later folder replaces one of the same name.

    Raises UsageError for a folder that can't be listed or holds no alert, and for a name that no alert has.
    """
    found = {path.stem: path for folder in (sql_folder() / "alerts", *folders) for path in _files(folder)}
    for name in only:
        if name not in found:
            raise UsageError(f"there is no alert {name!r}{nearest(name, found)}; there are {', '.join(sorted(found))}")
    return [AlertQuery(name, found[name]) for name in sorted(set(only) or found)]


def _files(folder: Path) -> list[Path]:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".sql" and not path.name.startswith("."))
    except OSError as error:
        raise UsageError(f"{folder} can't be read: {error.strerror}. --dir names a folder of alerts.") from error
    if not files:
        raise UsageError(f"{folder} holds no alerts: an alert is a file NAME.sql")
    return files

"""The first line of a log: its header, or what is wrong where there is none (spec 3)."""

from __future__ import annotations

from typing import Any, NamedTuple

from turnlake.format.header import Header, is_header, misplaced, read_header
from turnlake.format.runs import PACKED_TYPES
from turnlake.format.values import is_text, scrubbed
from turnlake.format.verdict import Judge
from turnlake.format.vocabulary import NEWEST_VERSION
from turnlake.sources.lines import Overlong


class LogName(NamedTuple):
    """What a log's place says: its generation, None where the name is not canonical, and a stand-in id.

    `session_folder` and `project_folder` are the folders it lies in, None where they say nothing about it.
    """

    generation: int | None
    stem: str
    session_folder: str | None = None
    project_folder: str | None = None


class Start:
    """What is known of a log once its first line is read; the judge hears what is wrong with it.

    `is_stopped` is True where no further line may be read: an unknown version, or a name that contradicts the header.
    `is_no_log` is True for a file of another name whose first line is neither a header nor an event.
    """

    def __init__(self, name: LogName, judge: Judge) -> None:
        self.name = name
        self.header: Header | None = None
        self.header_line: bytes | None = None
        self.is_stopped = False
        self.is_no_log = False
        self._judge = judge

    def take(self, value: Any, raw: bytes | Overlong, *, is_odd: bool) -> bool:
        """True where the first line holds no event: it is a header, or ends the reading."""
        if not is_header(value):
            self.lacks_header("it is no session header")
            if self.name.generation is None and not _is_event(value):
                self.is_stopped = self.is_no_log = True
            return self.is_stopped
        self.header = read_header(scrubbed(value) if is_odd else value)
        self.header_line = raw if isinstance(raw, bytes) else None
        self._examine(self.header)
        if not self.is_stopped:
            self._judge.begin(self.version, self.header)
        return True

    @property
    def version(self) -> int:
        """The format version by which all that follows is read."""
        version = self.header.version if self.header is not None else None
        return version if version is not None else min(self.name.generation or 0, NEWEST_VERSION)

    def _examine(self, header: Header) -> None:
        generation = self.name.generation
        for note in header.notes:
            self._judge.find("unknown_header_key", note)
        if header.refusal:
            self._judge.refuse(header.refusal, "INV-01", "; ".join(header.faults))
        if header.is_readable and generation is not None and header.version not in (generation, None):
            detail = f"the header says version {header.version}, the file name {generation}"
            self._judge.refuse("version_mismatch", "version_mismatch", detail)
            self.is_stopped = True
        for detail in misplaced(header, self.name.session_folder, self.name.project_folder):
            self._judge.find("path_mismatch", detail)
        self.is_stopped = self.is_stopped or not header.is_readable

    def lacks_header(self, detail: str) -> None:
        """A canonical log without header is refused; any other may be of the tutorial dialect."""
        if self.name.generation is not None:
            self._judge.refuse("no_header", "no_header", detail)

    def is_unread(self, detail: str) -> None:
        """The first line can't be read."""
        self.lacks_header(detail)
        self.is_stopped = self.is_no_log = self.name.generation is None


def _is_event(value: Any) -> bool:
    """True for an object that could be an event or a packed row, of the tutorials too."""
    kind = value.get("type") if isinstance(value, dict) else None
    return is_text(kind) and ("/" in kind or kind in PACKED_TYPES or "seq" in value)

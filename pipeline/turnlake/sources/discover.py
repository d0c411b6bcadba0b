"""From sources to log files: which files below a SOURCE are logs, and why the others are not.

Nothing is opened but archives, databases, and a SOURCE file whose name does not say what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnlake.findings import Finding
from turnlake.sources.buckets import BucketSearch
from turnlake.sources.folders import FolderSearch
from turnlake.sources.logfile import LogFile
from turnlake.sources.remote import Place
from turnlake.sources.search import Probed, Search
from turnlake.sources.source import Source, merge_sources


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

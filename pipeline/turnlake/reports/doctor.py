"""Where logs were looked for, what was found and left out, how the lake is, and why a number may be zero."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from turnlake.console import plain, plural, print_table
from turnlake.findings import CODES, Finding, Severity
from turnlake.lake.state import Lake
from turnlake.reports.judged import RefusedLog, is_log, refused
from turnlake.reports.lacks import Reason, lacks_of, refused_in
from turnlake.reports.lakehealth import LakeHealth, lake_health
from turnlake.rows.tables import LAKE_FORMAT
from turnlake.sources.container import container_of
from turnlake.sources.discover import Discovery, find_logs
from turnlake.sources.logfile import LogFile
from turnlake.sources.source import Probe, Source, default_probes, default_source

# How many places a person is shown for one kind of finding; --json gives all.
SHOWN_PLACES = 5
# How many refused logs a person is shown, and in how small a source logs that no lake knows are read.
SHOWN_LOGS = 20


class LogGroup(NamedTuple):
    """Logs of one source and one form of name. `newest_at` is their latest modification time, ISO 8601 in UTC."""

    source: str
    form: str
    log_count: int
    bytes: int
    newest_at: str | None


@dataclass(frozen=True)
class Examination:
    """All that the doctor found out."""

    probes: tuple[Probe, ...]
    discovery: Discovery
    groups: tuple[LogGroup, ...]
    lake: LakeHealth
    # Of the lake, and of small sources whose logs it does not have yet.
    refused: tuple[RefusedLog, ...]
    reasons: tuple[Reason, ...]

    def exit_code(self, strict: bool) -> int:
        """1 where something needs a hand: an error, or, if strict, a warning; else 0."""
        grave = {"error", "warning"} if strict else {"error"}
        return int(any(reason.severity in grave for reason in self.reasons))


def examine(sources: Sequence[Source], environ: Mapping[str, str], lake: Path) -> Examination:
    """Looks at the sources, without any at the default place, and at the lake; writes nothing.

    SourceError where the sources' names contradict each other.
    """
    probes = default_probes(environ)
    if sources:
        probes = tuple(probe._replace(is_used=False) for probe in probes)
    elif any(probe.is_used and probe.path is not None and probe.path.exists() for probe in probes):
        sources = [default_source(environ)]
    discovery = _with_closed_files(_without_strangers(find_logs(sources)))
    health = lake_health(lake)
    known, judged = _refused_of_lake(health), _refused_of_sources(health, discovery)
    told = [Reason("warning", f"{plural(len(judged), 'log')} not in the lake yet that the harness would refuse")]
    reasons = (*_log_reasons(probes, discovery), *told[: len(judged)], *_lake_reasons(health, discovery.logs))
    return Examination(probes, discovery, tuple(_groups(discovery.logs)), health, (*known, *judged), reasons)


def _without_strangers(discovery: Discovery) -> Discovery:
    """The discovery without the files of small sources that only their first lines tell are no logs."""
    small = _small_sources(discovery)
    logs = [log for log in discovery.logs if log.source not in small or log.is_remote or is_log(log)]
    counts = Counter(log.source for log in logs)
    strangers = {
        log.place: Finding("ignored_file", "its first line is neither a header nor an event")
        for log in discovery.logs
        if log not in logs
    }
    findings = [found for found in discovery.findings if found[0] not in strangers]
    probed = [
        place._replace(kind="nothing" if place.kind == "log" and not counts[place.source] else place.kind)
        for place in discovery.probed
    ]
    counted = tuple(place._replace(log_count=counts[place.source]) for place in probed)
    return Discovery(tuple(logs), (*findings, *strangers.items()), counted)


def _small_sources(discovery: Discovery) -> frozenset[str]:
    return frozenset(probed.source for probed in discovery.probed if probed.log_count <= SHOWN_LOGS)


def _refused_of_lake(health: LakeHealth) -> list[RefusedLog]:
    is_readable = health.status in ("ready", "behind", "outdated") and health.database_bytes is not None
    return refused_in(Lake(Path(health.path))) if is_readable and not health.damaged else []


def _refused_of_sources(health: LakeHealth, discovery: Discovery) -> list[RefusedLog]:
    """The refused logs of small sources on disk that the lake does not have yet; reads them whole."""
    state = None if health.status in ("none", "unusable") else Lake(Path(health.path)).current()
    known = state.manifest()["logs"] if state else {}
    small = _small_sources(discovery)
    unknown = (log for log in discovery.logs if log.log_id not in known and log.source in small and not log.is_remote)
    return [found for log in unknown if (found := refused(log)) is not None]


def _with_closed_files(discovery: Discovery) -> Discovery:
    """The discovery with a finding for each log this user may not open."""
    closed = [
        (log.place, Finding("unreadable_file", "no permission to open it"))
        for log in discovery.logs
        if not log.is_remote and not os.access(log.os_path, os.R_OK)
    ]
    return Discovery(discovery.logs, (*discovery.findings, *closed), discovery.probed)


def _groups(logs: Sequence[LogFile]) -> Iterator[LogGroup]:
    members: dict[tuple[str, str], list[LogFile]] = defaultdict(list)
    for log in logs:
        members[log.source, _form(log)].append(log)
    for (source, form), group in sorted(members.items()):
        newest = max(log.mtime_ns for log in group)
        yield LogGroup(source, form, len(group), sum(log.size for log in group), instant(newest))


def _form(log: LogFile) -> str:
    if log.is_in_store:
        return "in an SQLite store"
    if log.entry is not None:
        return "in export ZIP, " + log.file_name
    if log.is_canonical:
        return log.file_name
    return "other name, " + ("zstd" if _is_zstd(log) else "raw")


def _is_zstd(log: LogFile) -> bool:
    try:
        return container_of(log) == "zstd"
    except OSError:
        # That it can't be opened is told by its finding.
        return False


def instant(unix_ns: int | None) -> str | None:
    """A time as ISO 8601 in UTC, to the second; None where it is unknown or outside the years 1 to 9999."""
    if unix_ns is None:
        return None
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=unix_ns // 10**9)
    except OverflowError:
        return None
    return at.isoformat().replace("+00:00", "Z")


def _log_reasons(probes: Sequence[Probe], discovery: Discovery) -> Iterator[Reason]:
    for probe in probes:
        if probe.is_used and (probe.path is None or not probe.path.exists()):
            yield Reason(
                "warning",
                f"{probe.origin} is {probe.path}, which is not there: "
                "has the harness run here, as this user? If its home is elsewhere, set DSH_HOME or name a SOURCE",
            )
    for probed in discovery.probed:
        if probed.log_count == 0:
            walked = f" in {plural(probed.folder_count, 'folder')}" if probed.kind == "folder" else ""
            yield Reason("warning", f"no log was found{walked} at {probed.place}: is it the right place?")
    counts: dict[str, int] = defaultdict(int)
    for _, finding in discovery.findings:
        counts[finding.code] += 1
    for code, count in sorted(counts.items()):
        yield Reason(CODES[code].severity, f"{count} × {code}: {CODES[code].about}")


def _lake_reasons(lake: LakeHealth, logs: Sequence[LogFile]) -> Iterator[Reason]:
    if lake.status == "unusable":
        yield Reason("error", lake.problem or "the lake can't be used")
    elif lake.status == "none":
        yield Reason("advisory", f"there is no lake at {lake.path}: run `turnlake build`, or name another by --lake")
    elif lake.status == "unpublished":
        yield Reason("warning", "the lake holds logs but no database of them: run `turnlake model`")
    else:
        if lake.status == "outdated":
            yield Reason("warning", f"the lake has format {lake.format}, now {LAKE_FORMAT}: run `turnlake build`")
        if lake.status == "behind":
            yield Reason("warning", "the database is older than the logs that were read: run `turnlake model`")
        if lake.database_bytes is not None and not lake.damaged:
            yield from lacks_of(Lake(Path(lake.path)), logs)
    if lake.damaged:
        names = ", ".join(lake.damaged[:SHOWN_PLACES])
        yield Reason(
            "error",
            f"{plural(len(lake.damaged), 'file')} of the lake not as written ({names}): "
            "run `turnlake build --full`, which reads their logs again",
        )
    if lake.is_building:
        holder = f" (pid {lake.building_pid})" if lake.building_pid else ""
        yield Reason("advisory", f"a build is running{holder}: numbers are those of the build before it")
    if lake.are_folders_behind and not lake.is_building:
        yield Reason(
            "warning",
            "a build was killed after it had published, or files were removed: "
            "the database is right, the Parquet folders are not yet; the next build finishes them",
        )
    if lake.leftovers:
        names = ", ".join(lake.leftovers)
        yield Reason("advisory", f"a build was killed and left {names}: the next build removes it")


def as_json(examination: Examination) -> dict[str, Any]:
    """The examination as one JSON document, with every finding."""
    discovery = examination.discovery
    return {
        "places": [{**probe._asdict(), "exists": _exists(probe)} for probe in examination.probes],
        "sources": [probed._asdict() for probed in discovery.probed],
        "logs": [group._asdict() for group in examination.groups],
        "findings": [
            {"code": finding.code, "severity": _severity(finding), "place": place, "detail": finding.detail}
            for place, finding in discovery.findings
        ],
        "lake": asdict(examination.lake),
        "refused_logs": [log._asdict() for log in examination.refused],
        "reasons": [reason._asdict() for reason in examination.reasons],
    }


def print_text(examination: Examination) -> None:
    """Prints the examination for a person, most general first, the answer last."""
    probes, discovery, lake = examination.probes, examination.discovery, examination.lake
    rows: list[Sequence[object]] = [
        (probe.origin, probe.path, _exists(probe), "looked at" if probe.is_used else "not needed") for probe in probes
    ]
    rows += [(f"SOURCE {probed.source}", probed.place, True, "looked at") for probed in discovery.probed]
    print_table(("place", "path", "exists", "use"), rows)
    if examination.groups:
        _gap()
        print_table(("source", "logs named", "logs", "bytes", "newest"), examination.groups)
    if discovery.findings:
        _gap()
        print_table(("finding", "where", "why"), list(_finding_rows(discovery)))
    if examination.refused:
        _gap()
        print_table(("refused log", "line", "why", "read"), list(_refused_rows(examination.refused)))
    _gap()
    facts = (
        ("path", lake.path),
        ("state", lake.status),
        ("format", lake.format),
        ("database bytes", lake.database_bytes),
    )
    building = f"yes, pid {lake.building_pid}" if lake.building_pid else lake.is_building
    more = (
        ("built at", lake.built_at),
        ("build running", building),
        ("left over", ", ".join(lake.leftovers) or "nothing"),
    )
    print_table(("lake", ""), (*facts, *more))
    _gap()
    print("Why a number may be zero or too low:")
    for reason in examination.reasons or (Reason("advisory", "nothing was found that would make it so"),):
        print(plain(f"  {reason.severity}: {reason.text}"))


def _refused_rows(logs: Sequence[RefusedLog]) -> Iterator[tuple[object, ...]]:
    for log in logs[:SHOWN_LOGS]:
        place = log.path if log.source.endswith(f"/{log.path}") else f"{log.source}/{log.path}"
        yield place, log.line, log.reason, "what can be read" if log.is_read else "nothing"
    if len(logs) > SHOWN_LOGS:
        yield f"and {len(logs) - SHOWN_LOGS:,} more", None, "all by --json", None


def _finding_rows(discovery: Discovery) -> Iterator[tuple[str, str, str]]:
    by_code: dict[str, list[tuple[str, Finding]]] = defaultdict(list)
    for place, finding in discovery.findings:
        by_code[finding.code].append((place, finding))
    for code, found in sorted(by_code.items()):
        for place, finding in found[:SHOWN_PLACES]:
            yield code, place, finding.detail
        if len(found) > SHOWN_PLACES:
            yield code, f"and {len(found) - SHOWN_PLACES} more", "all by --json"


def _severity(finding: Finding) -> Severity:
    return finding.severity or CODES[finding.code].severity


def _exists(probe: Probe) -> bool:
    return probe.path is not None and probe.path.exists()


def _gap() -> None:
    print()

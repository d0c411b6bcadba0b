"""What the numbers of a lake lack, and why: asked of its database, which is opened read-only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from turnlake.api import unread
from turnlake.console import plural
from turnlake.findings import Severity
from turnlake.lake.state import Lake
from turnlake.models.text import quoted
from turnlake.reports.judged import RefusedLog
from turnlake.sources.logfile import LogFile


class Reason(NamedTuple):
    """Why a number may be zero or too low, and what to do about it."""

    severity: Severity
    text: str


class _Lack(NamedTuple):
    """A query whose rows are a number of what the noun names and words that say which; the sentence for such a row."""

    severity: Severity
    noun: str
    text: str
    query: str


_LACKS = (
    _Lack(
        "warning",
        "log",
        "{} not read at all ({}): missing from every total",
        "select count(*), coalesce(verdict_reason, 'no reason') from raw.logs where is_read is not true group by 2",
    ),
    _Lack(
        "warning",
        "log",
        "{} that the harness would refuse ({}): what can be read there counts as spend all the same",
        "select count(*), coalesce(verdict_reason, 'no reason') from raw.logs "
        "where verdict = 'refused' and is_read group by 2",
    ),
    _Lack(
        "advisory",
        "log",
        "{} left out as an older generation or a copy ({}): another log counts instead",
        "select count(*), superseded_why from raw.logs where superseded_by is not null group by 2",
    ),
    _Lack(
        "advisory",
        "log",
        "{} of the lake gone from {}: the numbers stay; `turnlake ingest --purge-missing` removes them",
        "select count(*), source from raw.logs where is_missing group by 2",
    ),
    _Lack(
        "warning",
        "call",
        "{} without usable usage in the log (usage {}): unknown is not 0, and no sum has it",
        "select count(*), usage_source from marts.attempts where usage_source in ('none', 'invalid') group by 2",
    ),
    _Lack(
        "warning",
        "call",
        "{} without a price ({}): the tokens count, the cost is unknown; give a price by --prices",
        "select count(*), coalesce(provider, 'unknown provider') || '/' || coalesce(model, 'unknown model') "
        "from marts.attempts where price_source = 'unpriced' and usage_source not in ('none', 'invalid') group by 2",
    ),
)


_REFUSED = """
select source, path, verdict_reason, verdict_line, is_read
from lake.raw.logs
where verdict = 'refused' or is_read is not true
order by is_read is true, source, path
"""


def lacks_of(lake: Lake, logs: Sequence[LogFile]) -> Iterator[Reason]:
    """What the lake's database lacks in itself and of the logs found on disk; what it can't say is a reason too."""
    import duckdb

    yield from _unread(lake, logs)
    # A database attached to a fresh instance is the file that is there now, not one this process opened before.
    with duckdb.connect() as connection:
        try:
            connection.execute(f"attach {quoted(str(lake.database))} as lake (read_only)")
            connection.execute("use lake")
        except duckdb.Error as error:
            yield Reason("error", str(unread(lake.path, error)))
            return
        for lack in _LACKS:
            try:
                rows = connection.execute(f"{lack.query} order by 1 desc, 2").fetchall()
            except duckdb.CatalogException as error:
                yield Reason("warning", f"the database lacks a table: {_first_line(error)}. Run `turnlake model`")
                continue
            except duckdb.Error as error:
                yield Reason("error", str(unread(lake.path, error)))
                return
            for count, which in rows:
                yield Reason(lack.severity, lack.text.format(plural(count, lack.noun), which))


def refused_in(lake: Lake) -> list[RefusedLog]:
    """The logs of the lake that the harness would refuse, those first that were not read at all.

    Nothing where the database can't tell; `lacks_of` says why.
    """
    import duckdb

    with duckdb.connect() as connection:
        try:
            connection.execute(f"attach {quoted(str(lake.database))} as lake (read_only)")
            rows = connection.execute(_REFUSED).fetchall()
        except duckdb.Error:
            return []
    return [RefusedLog(*row) for row in rows]


def _unread(lake: Lake, logs: Sequence[LogFile]) -> Iterator[Reason]:
    """Logs on disk that the lake does not have, or not as they are now."""
    state = lake.current()
    known = {log_id: entry[1:3] for log_id, entry in state.manifest()["logs"].items()} if state else {}
    stamps = [(known.get(log.log_id), [log.size, log.mtime_ns]) for log in logs]
    if missing := sum(stored is None for stored, _ in stamps):
        yield Reason("warning", f"{missing} of {plural(len(logs), 'log')} found not in the lake: run `turnlake build`")
    if changed := sum(stored is not None and stored != now for stored, now in stamps):
        yield Reason("advisory", f"{plural(changed, 'log')} written to since the last build: run `turnlake build`")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

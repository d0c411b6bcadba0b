"""What a build ends with: logs, sessions, turns, tokens, and what none of them holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from turnlake.api import connect
from turnlake.console import plain, plural
from turnlake.files import write_whole
from turnlake.lake.state import Lake

# More refused logs than this are counted, not named.
NAMED_LOGS = 10
NAMED_SOURCES = 5

_LOGS = """
select
    count(*) as seen,
    count(*) filter (where superseded_by is null and is_read) as counted,
    count(*) filter (where superseded_by is not null) as superseded,
    count(*) filter (where superseded_by is null and not is_read) as unread,
    count(*) filter (where verdict = 'refused' and is_read and superseded_by is null) as refused,
    count(*) filter (where is_torn) as torn,
    count(*) filter (where is_missing) as missing,
    count(*) filter (where verdict = 'removable_tail') as with_removable_tail,
    coalesce(sum(unread_line_count), 0)::bigint as unread_lines
from raw.logs
"""
_SUPERSEDED = "select superseded_why, count(*) from raw.logs where superseded_by is not null group by 1 order by 1"
_REFUSED = """
select path, verdict_reason, verdict_line, is_read
from raw.logs
where verdict = 'refused' and superseded_by is null
order by source, path
"""
_SESSIONS = """
select
    count(*) as session_count,
    count(*) filter (where origin = 'subagent') as subagent_count,
    count(*) filter (where origin is null and parent_session_id is not null) as fork_count,
    coalesce(sum(event_count), 0)::bigint as event_count,
    coalesce(sum(turn_count), 0)::bigint as turn_count,
    coalesce(sum(attempt_count), 0)::bigint as attempt_count,
    sum(input_tokens)::bigint as input_tokens,
    sum(cache_read_tokens)::bigint as cache_read_tokens,
    sum(cache_write_tokens)::bigint as cache_write_tokens,
    sum(output_tokens)::bigint as output_tokens,
    sum(reasoning_tokens)::bigint as reasoning_tokens,
    sum(total_tokens)::bigint as total_tokens,
    sum(cost)::varchar as cost,
    coalesce(sum(unpriced_attempt_count), 0)::bigint as unpriced_attempt_count,
    (select any_value(currency) from staging.settings) as currency,
    (select count(*) from marts.unmetered_calls) as unmetered_call_count,
    coalesce(sum(unknown_usage_attempt_count), 0)::bigint as unknown_usage_attempt_count,
    coalesce(sum(orphan_prefix_event_count), 0)::bigint as orphan_prefix_event_count
from marts.sessions
"""
_STATES = "select state, count(*) from marts.turns group by 1 order by 2 desc, 1"
_CHECKS = "select status, count(*) from marts.projection_checks group by 1 order by 1"
_UNPRICED = """
select distinct coalesce(provider, 'unknown provider') || '/' || coalesce(model, 'unknown model')
from marts.attempts
where price_source = 'unpriced'
order by 1
"""
_EMPTY = """
select
    coalesce(sum(empty_max_tokens_count), 0)::bigint as empty_max_tokens_count,
    coalesce(sum(empty_max_tokens_total_tokens), 0)::bigint as empty_max_tokens_total_tokens,
    sum(empty_max_tokens_cost)::varchar as empty_max_tokens_cost
from marts.usage_daily
"""


_NOT_IN = "not in it: "
_KEPT = ("logs", "superseded", "refused", "sessions", "states", "unpriced", "checks")


@dataclass(frozen=True)
class Summary:
    """A lake in numbers. `counts` are those of the ingest, `refused` rows of path, reason, line, is_read."""

    lake: Path
    counts: Mapping[str, int]
    logs: Mapping[str, int]
    superseded: Mapping[str, int]
    refused: Sequence[tuple[Any, ...]]
    sessions: Mapping[str, Any]
    states: Mapping[str, int]
    unpriced: Sequence[str]
    # Sessions by what came of comparing them with their logs.
    checks: Mapping[str, int]
    # Logs by source, of sources that only earlier builds named.
    others: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_partial(self) -> bool:
        """Whether a total lacks something: logs, calls of unknown usage, or work of a parent that is not there."""
        return bool(
            self.refused
            or self.logs["unread_lines"]
            or self.sessions["unknown_usage_attempt_count"]
            or self.sessions["unpriced_attempt_count"]
            or self.sessions["unmetered_call_count"]
            or self.sessions["orphan_prefix_event_count"]
        )


def summarise(lake: Path, counts: Mapping[str, int]) -> Summary:
    """The published state of the lake in numbers. LakeError where it has none."""
    with connect(lake) as db:

        def one(query: str) -> dict[str, Any]:
            result = db.execute(query)
            names = [column[0] for column in result.description or ()]
            return dict(zip(names, result.fetchall()[0], strict=True))

        return Summary(
            lake=lake,
            counts=counts,
            logs=one(_LOGS),
            superseded=dict(db.execute(_SUPERSEDED).fetchall()),
            refused=db.execute(_REFUSED).fetchall(),
            sessions={**one(_SESSIONS), **one(_EMPTY)},
            states=dict(db.execute(_STATES).fetchall()),
            unpriced=[name for (name,) in db.execute(_UNPRICED).fetchall()],
            checks=dict(db.execute(_CHECKS).fetchall()),
        )


def keep_summary(lake: Lake, summary: Summary) -> None:
    """Put the summary beside the state it is of, for builds that find nothing new."""
    kept = {name: getattr(summary, name) for name in _KEPT} | {"of": _publication(lake)}
    write_whole(lake.summary, orjson.dumps(kept))


def kept_summary(lake: Lake, path: Path, counts: Mapping[str, int]) -> Summary | None:
    """The summary kept last, with the counts of another ingest; None where it is of another database or not there."""
    try:
        kept = orjson.loads(lake.summary.read_bytes())
        if kept["of"] != _publication(lake):
            return None
        return Summary(lake=path, counts=counts, **{name: kept[name] for name in _KEPT})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _publication(lake: Lake) -> list[str | int]:
    """What tells the database in place from all others."""
    published = lake.published()
    return [published.state_id, published.bytes, published.mtime_ns] if published else []


def as_json(summary: Summary) -> dict[str, Any]:
    """The summary as `build --json` prints it, the counts of the ingest at the top."""
    refused = [
        {"path": path, "reason": reason, "line": line, "is_read": is_read}
        for path, reason, line, is_read in summary.refused
    ]
    return {
        **summary.counts,
        "logs": {**summary.logs, "superseded_why": dict(summary.superseded), "refused_logs": refused},
        "sessions": dict(summary.sessions),
        "turns_by_state": dict(summary.states),
        "unpriced_models": list(summary.unpriced),
        "checks": dict(summary.checks),
        "other_sources": dict(summary.others),
        "lake": str(summary.lake),
    }


def print_text(summary: Summary) -> None:
    """Print the summary for a person."""
    for name, text in _lines(summary):
        print(f"{name:<10}{text}".rstrip())


def _lines(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "logs", _logs_text(summary)
    yield from (("also", line) for line in other_lines(summary.others))
    yield from _refused_lines(summary)
    sessions = summary.sessions
    kinds = {"subagent": sessions["subagent_count"], "fork": sessions["fork_count"]}
    shown = ", ".join(plural(count, kind) for kind, count in kinds.items() if count)
    of_them = f" ({shown})" if shown else ""
    yield "sessions", f"{_count(sessions['session_count'])}{of_them}, {_count(sessions['event_count'])} events"
    yield "turns", f"{_count(sessions['turn_count'])}{_listed(summary.states)}"
    yield "tokens", _tokens_text(sessions)
    yield "cost", f"{_money(sessions['cost'])} {sessions['currency']}"
    for lack in _lacks(summary):
        yield "", lack
    yield "checked", _checks_text(summary.checks)
    yield "lake", str(summary.lake)
    option = "" if summary.lake == Path("data/lake") else f" --lake {summary.lake}"
    yield "next", f"turnlake sql \"from marts.turns where state <> 'completed'\"{option}"


def _logs_text(summary: Summary) -> str:
    logs = summary.logs
    parts = [f"{_count(logs['seen'])} seen: {_count(logs['counted'])} counted"]
    if logs["superseded"]:
        parts.append(f"{_count(logs['superseded'])} superseded{_listed(summary.superseded)}")
    if logs["unread"]:
        parts.append(f"{_count(logs['unread'])} unread")
    if logs["torn"]:
        parts.append(f"{_count(logs['torn'])} with a torn end")
    if logs["missing"]:
        parts.append(f"{_count(logs['missing'])} deleted since")
    return ", ".join(parts)


def other_lines(others: Mapping[str, int]) -> Iterator[str]:
    """The logs of sources that only earlier builds named: they stay in the lake, and in all totals."""
    for source, count in list(others.items())[:NAMED_SOURCES]:
        yield f"{plural(count, 'log')} of {plain(source)}, which this build did not look at"
    if more := list(others.values())[NAMED_SOURCES:]:
        yield f"{plural(sum(more), 'log')} of {plural(len(more), 'other source')}"


def what_is_partial(summary: Summary) -> str:
    """What the totals lack, in one line; empty where they are whole."""
    torn = [f"{plural(summary.logs['torn'], 'log')} with a torn end"] if summary.logs["torn"] else []
    refused = [f"{plural(len(summary.refused), 'log')} refused"] if summary.refused else []
    lacks = [lack.removeprefix(_NOT_IN) for lack in _lacks(summary) if lack.startswith(_NOT_IN)]
    return "; ".join([*refused, *torn, *lacks])


def _refused_lines(summary: Summary) -> Iterator[tuple[str, str]]:
    """The logs that the harness would refuse; what can be read of them counts all the same."""
    refused = summary.refused
    for path, reason, line, is_read in refused[:NAMED_LOGS]:
        place = f"{plain(path)}, line {line}" if line else plain(path)
        yield "refused", f"{place}: {reason}; {'what can be read counts' if is_read else 'nothing was read'}"
    if len(refused) > NAMED_LOGS:
        yield "refused", f"and {_count(len(refused) - NAMED_LOGS)} more: see raw.logs"


def _checks_text(checks: Mapping[str, int]) -> str:
    """What came of deriving everything again from the logs."""
    others = {status.replace("_", " "): count for status, count in checks.items() if status != "match"}
    return f"{_count(checks.get('match', 0))} of {plural(sum(checks.values()), 'session')} match{_listed(others)}"


def _tokens_text(sessions: Mapping[str, int | None]) -> str:
    parts = [f"{_count(sessions['total_tokens'])} in {_count(sessions['attempt_count'])} calls: "]
    kinds = ("input", "cache_read", "cache_write", "output")
    parts.append(", ".join(f"{_count(sessions[f'{kind}_tokens'])} {kind.replace('_', ' ')}" for kind in kinds))
    return "".join(parts) + f" (of it {_count(sessions['reasoning_tokens'])} reasoning)"


def _lacks(summary: Summary) -> Iterator[str]:
    sessions, logs = summary.sessions, summary.logs
    if sessions["empty_max_tokens_count"]:
        tokens, cost = _count(sessions["empty_max_tokens_total_tokens"]), _money(sessions["empty_max_tokens_cost"])
        calls = plural(sessions["empty_max_tokens_count"], "call")
        yield f"in it: {calls} that hit the output limit with an empty message: {tokens} tokens, {cost}"
    if sessions["unpriced_attempt_count"]:
        models = ", ".join(map(plain, summary.unpriced))
        yield f"{_NOT_IN}{plural(sessions['unpriced_attempt_count'], 'call')} without a price ({models})"
    if sessions["unknown_usage_attempt_count"]:
        yield f"{_NOT_IN}{plural(sessions['unknown_usage_attempt_count'], 'call')} whose usage no log tells"
    if sessions["unmetered_call_count"]:
        yield f"{_NOT_IN}{plural(sessions['unmetered_call_count'], 'call')} for titles or searches, never metered"
    if sessions["orphan_prefix_event_count"]:
        events = plural(sessions["orphan_prefix_event_count"], "event")
        yield f"{_NOT_IN}{events} inherited from logs that are not here"
    if logs["unread_lines"]:
        yield f"{_NOT_IN}{plural(logs['unread_lines'], 'line')} that could not be read; see marts.findings"


def _listed(counts: Mapping[str, int | None]) -> str:
    """` (3 error, 1 blocked)` for the counts that are not 0."""
    texts = [f"{_count(count)} {plain(name)}" for name, count in counts.items() if count]
    return f" ({', '.join(texts)})" if texts else ""


def _money(amount: str | None) -> str:
    """An amount of money, at least to the cent; all digits that are not 0."""
    if amount is None:
        return "unknown"
    whole, _, digits = amount.partition(".")
    return f"{int(whole):,}.{digits.rstrip('0').ljust(2, '0')}"


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"

"""One session of a lake: its rows in the tables, asked for when first needed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Row = dict[str, Any]

_FACTS = """
select
    s.*,
    l.* exclude (
        session_id, source, machine, cwd, format_version, dialect, agent_preset, verdict, created_at, first_event_at,
        last_event_at, parent_session_id, origin, delegation_depth, inherited_event_count, event_count,
        clock_anomaly_count
    ),
    g.currency
from marts.sessions as s
inner join staging.sessions as l using (session_id)
cross join staging.settings as g
where s.session_id = ?
"""
# Events that count for state, in the order of the log.
_EVENTS = """
select
    line, seq, type, time_ms, turn, step, is_inherited, is_interrupted, call_id, related_id, child_id, tool_name,
    tool_call_ids, tool_call_names, label, outcome, reason_kind, source_kind, source_name, provider, model, retry,
    delay_ms, error_code, error_message, error_status, error_request_id
from staging.events
anti join intermediate.overridden_events using (session_id, branch, seq)
where session_id = ?
order by line
"""
_CLOSERS = "select * from marts.synthetic_events where session_id = ? order by seq"


def rows(db: DuckDBPyConnection, query: str, *values: Any) -> list[Row]:
    """The rows of a query as dicts."""
    result = db.execute(query, list(values))
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


@dataclass(frozen=True)
class Session:
    """A session and the database that holds it; `target` are the words that name it on a command line."""

    db: DuckDBPyConnection
    session_id: str
    target: tuple[str, ...]

    def command(self, name: str, *words: str) -> str:
        """A command line about this session, quoted for a shell."""
        return shlex.join(["turnlake", name, *self.target[:1], *words, *self.target[1:]])

    @cached_property
    def facts(self) -> Row:
        """Its row of marts.sessions, what staging.sessions adds about its log, and the currency."""
        [row] = rows(self.db, _FACTS, self.session_id)
        return row

    @cached_property
    def turns(self) -> list[Row]:
        """Its own turns in order; their `end_seq` is NULL while dangling."""
        return self._of("marts.turns", "coalesce(start_seq, end_seq), turn")

    @cached_property
    def steps(self) -> list[Row]:
        """Its own steps in order."""
        return self._of("marts.steps", "coalesce(start_seq, end_seq), turn, step")

    @cached_property
    def attempts(self) -> list[Row]:
        """Its calls of models, in the order in which the log tells of them."""
        return self._of("marts.attempts", "first_line, attempt_id")

    @cached_property
    def calls(self) -> list[Row]:
        """Its tool calls."""
        return self._of("marts.tool_calls", "turn, step, coalesce(call_seq, result_seq), ordinal, call_id")

    @cached_property
    def messages(self) -> list[Row]:
        """Its transcript in the order of the log, the inherited prefix included."""
        return self._of("marts.transcript", "seq")

    @cached_property
    def compactions(self) -> list[Row]:
        """Its compactions."""
        return self._of("marts.compactions", "compaction")

    @cached_property
    def findings(self) -> list[Row]:
        """What is worth knowing about its log."""
        return self._of("marts.findings", "ordinal")

    @cached_property
    def events(self) -> list[Row]:
        """Its events without stream chunks, in the order of the log, the inherited prefix included."""
        return rows(self.db, _EVENTS, self.session_id)

    @cached_property
    def by_seq(self) -> dict[int, Row]:
        """The same by number."""
        return {event["seq"]: event for event in self.events}

    @cached_property
    def closers(self) -> list[Row]:
        """The events that the harness would add to close what is open."""
        return rows(self.db, _CLOSERS, self.session_id)

    def in_turn(self, table: list[Row], turn: int | None) -> list[Row]:
        """Those rows of a table of this session that belong to a turn."""
        return [row for row in table if row["turn"] == turn]

    def _of(self, table: str, order: str) -> list[Row]:
        return rows(self.db, f"select * from {table} where session_id = ? order by {order}", self.session_id)

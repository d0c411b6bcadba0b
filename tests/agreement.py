"""Lays the second count beside the marts, row by row, and tells where they differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import duckdb

from counter import Session, Turn, cost, day, window
from counter_calls import Call
from counter_tools import Tool, union
from lakes import rows

Row = dict[str, Any]
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
TIMES = ("started", "first_token", "last_token", "settled", "billed")
ATTEMPTS = f"""
select * exclude (first_line), {", ".join(f"epoch_ms({name}_at) as {name}" for name in TIMES)}
from marts.attempts left join (select attempt_id, first_line from intermediate.attempts) using (attempt_id)
"""


def differences(
    db: duckdb.DuckDBPyConnection, sessions: Iterable[Session], tables: Iterable[str] | None = None
) -> list[str]:
    """One line for each row or value of the tables that the two counts do not share; empty when they agree."""
    sessions = list(sessions)
    counted = {
        "attempts": {(s.id, call.id(s.id)): attempt(s, call) for s in sessions for call in s.calls},
        "turns": {(s.id, turn.number): turn_row(s, turn) for s in sessions for turn in s.turns.values()},
        "steps": {(s.id, *place): row for s in sessions for place, row in step_rows(s)},
        "tool_calls": {(s.id, *key): row for s in sessions for key, row in tool_rows(s)},
        "sessions": {(s.id,): session_row(s) for s in sessions},
        "usage_daily": daily_rows(sessions),
    }
    return [line for table in tables or counted for line in _different(db, table, counted[table])]


KEYS = {
    "attempts": ("session_id", "attempt_id"),
    "turns": ("session_id", "turn"),
    "steps": ("session_id", "turn", "step"),
    "tool_calls": ("session_id", "turn", "step", "call_id", "call_seq", "result_seq"),
    "sessions": ("session_id",),
    "usage_daily": ("day", "project", "provider", "model", "kind"),
}


def _different(db: duckdb.DuckDBPyConnection, table: str, expected: dict[tuple[Any, ...], Row]) -> Iterator[str]:
    query = ATTEMPTS if table == "attempts" else f"from marts.{table}"
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows(db, query):
        key = tuple(row[name] for name in KEYS[table])
        if key in found:
            yield f"{table} {key}: twice in the marts"
        found[key] = row
    for key in sorted(expected.keys() | found.keys(), key=str):
        if key not in found:
            yield f"{table} {key}: not in the marts; counted {expected[key]}"
        elif key not in expected:
            yield f"{table} {key}: in the marts only"
        else:
            shown = {name: found[key].get(name, "no such column") for name in expected[key]}
            for name in shown:
                if shown[name] != expected[key][name]:
                    yield f"{table} {key} {name}: marts say {shown[name]!r}, counted {expected[key][name]!r}"


def attempt(session: Session, call: Call) -> Row:
    """What `marts.attempts` should say of a call."""
    turn = session.turns.get(call.turn or 0)
    provider, model = call.model
    price = cost(call)
    return {
        "kind": call.kind,
        "turn": call.turn,
        "step": call.step,
        "attempt": call.number,
        "branch": call.first.branch,
        "outcome": call.outcome,
        "provider": provider,
        "model": model,
        "finish_kind": call.finish.get("kind"),
        "error_code": call.error_code,
        "is_empty": call.is_empty,
        "is_empty_max_tokens": call.is_empty_max_tokens(turn.state if turn else None),
        "message_seq": call.message.seq if call.message else None,
        "started": call.started,
        "first_token": call.token_times[0] if call.token_times else None,
        "last_token": call.token_times[-1] if call.token_times else None,
        "settled": call.settled,
        "billed": call.billed,
        **call.tokens,
        "total_tokens": call.total,
        "usage_source": call.source,
        "is_counted_by_old_meter": "old" in call.meters,
        "is_counted_by_new_meter": "new" in call.meters,
        "cost": price,
        **({"price_window": window(call.billed)} if price is not None and call.billed is not None else {}),
    }


def rolled_up(calls: list[Call]) -> Row:
    """The sums over calls: 0 where nothing was called, None where nothing is known, else the sum of what is known."""

    def total(values: list[Any]) -> Any:
        known = [value for value in values if value is not None]
        return sum(known) if known or not calls else None

    priced = [cost(call) for call in calls]
    return {
        "attempt_count": len(calls),
        **{name: total([call.tokens[name] for call in calls]) for name in TOKENS},
        "total_tokens": total([call.total for call in calls]),
        "cost": total(priced) if calls else Decimal(0),
        "unknown_usage_attempt_count": sum(not call.is_known for call in calls),
        "unpriced_attempt_count": sum(
            call.is_known and price is None for call, price in zip(calls, priced, strict=True)
        ),
    }


def _wall(tools: list[Tool]) -> int | None:
    """How long any of the tools ran; None where they were called and none tells how long."""
    spans = [(t.call.time, t.result.time) for t in tools if t.call and t.result and t.call.time <= t.result.time]
    return union(spans) if spans or not tools else None


def turn_row(session: Session, turn: Turn) -> Row:
    """What `marts.turns` should say of a turn."""
    calls = [call for call in session.calls if call.turn == turn.number]
    tools = [tool for tool in session.tools if tool.place[0] == turn.number and tool.parent is None]
    provider, model = calls[-1].model if calls else (None, None)
    return rolled_up(calls) | {
        "state": turn.state,
        "duration_ms": turn.duration,
        "step_count": len(turn.steps),
        "retry_count": turn.retries,
        "tool_call_count": len(tools),
        "failed_tool_call_count": sum(tool.outcome == "error" for tool in tools),
        "tool_wall_ms": _wall(tools),
        "is_empty": not turn.steps,
        "is_dangling": turn.state == "dangling",
        "is_abandoned": turn.is_abandoned,
        "last_phase": turn.last_phase,
        "provider": provider,
        "model": model,
        "start_seq": turn.start.seq if turn.start else None,
        "end_seq": turn.end.seq if turn.end else None,
    }


def step_rows(session: Session) -> Iterator[tuple[tuple[int, int], Row]]:
    """What `marts.steps` should say."""
    for turn in session.turns.values():
        for step in turn.steps:
            here = (turn.number, step)
            times = {e.type: e.time for e in turn.events if e.type in ("step/start", "step/end") and e.place == here}
            start, end = times.get("step/start"), times.get("step/end")
            tools = [tool for tool in session.tools if tool.place == here and tool.parent is None]
            row = rolled_up([call for call in session.calls if (call.turn, call.step) == here])
            row |= {"duration_ms": end - start if start is not None and end is not None else None}
            row |= {"is_open": end is None, "tool_call_count": len(tools), "tool_wall_ms": _wall(tools)}
            yield here, row


def tool_rows(session: Session) -> Iterator[tuple[tuple[Any, ...], Row]]:
    """What `marts.tool_calls` should say."""
    for tool in session.tools:
        places = (tool.call.seq if tool.call else None, tool.result.seq if tool.result else None)
        yield (
            (*tool.place, tool.call_id, *places),
            {
                "tool_name": tool.name,
                "outcome": tool.outcome,
                "wall_ms": tool.wall,
                "exec_ms": tool.exec,
                "is_nested": tool.parent is not None,
                "parent_call_id": tool.parent,
                **({"approval_wait_ms": tool.wait} if tool.wall is not None else {}),
            },
        )


def session_row(session: Session) -> Row:
    """What `marts.sessions` should say."""
    return rolled_up(session.calls) | {
        "inherited_event_count": session.log.cut,
        "event_count": len(session.log.events),
        "turn_count": len(session.turns),
        "step_count": sum(len(turn.steps) for turn in session.turns.values()),
        "tool_call_count": sum(tool.parent is None for tool in session.tools),
        "clock_anomaly_count": session.clock_anomalies,
    }


def daily_rows(sessions: list[Session]) -> dict[tuple[Any, ...], Row]:
    """What `marts.usage_daily` should say of sessions in POSIX folders."""
    groups: dict[tuple[Any, ...], list[Call]] = defaultdict(list)
    for session in sessions:
        project = session.log.header.get("cwd")
        for call in session.calls:
            groups[(day(call.billed) if call.billed is not None else None, project, *call.model, call.kind)].append(
                call
            )
    return {key: rolled_up(calls) for key, calls in groups.items()}

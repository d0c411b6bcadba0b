"""A diagnosis for people: of one session, or the list of those worth a look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnlake.inspect.diagnosis import Diagnosis
from turnlake.inspect.overview import overview, settings_words
from turnlake.inspect.screen import Line
from turnlake.inspect.session import Row, Session
from turnlake.inspect.words import count, failure_words, one_line, route

VERDICTS = {
    "refused": "the harness refuses this log whole and can't open the session; what can be read of it is shown here",
    "removable_tail": "the harness drops the end of this log from its first bad line on, and goes on without it",
}


def is_log_fine(facts: Row) -> bool:
    """Whether the harness takes the whole log."""
    return bool(facts["verdict"] == "clean")


def session_json(session: Session, found: list[Diagnosis]) -> dict[str, Any]:
    """Session, condition of its log, diagnoses."""
    facts = session.facts
    log = ("path", "verdict", "verdict_reason", "is_torn", "torn_bytes", "dropped_record_count", "is_exact")
    return {
        "session_id": session.session_id,
        "format_version": facts["format_version"],
        "last_event_at": facts["last_event_at"],
        "log": {name: facts[name] for name in (*log, "inexact_reason")},
        "turn_count": facts["turn_count"],
        "turns": [one.as_json() for one in found],
    }


def session_lines(session: Session, found: list[Diagnosis], turn: int | None) -> Iterator[Line]:
    """The session, then a block for each turn; `turn` is the only one that was asked about."""
    yield from overview(session)
    if session.facts["verdict"] in VERDICTS:
        yield Line(1, "so       ", VERDICTS[session.facts["verdict"]], "bad")
    if session.facts["is_torn"]:
        yield Line(1, "torn end", "what was being written when the process stopped is lost; all before it counts")
    for one in found:
        yield Line(0, "")
        yield from _turn_lines(one)
    if not found:
        yield Line(0, "")
        yield Line(0, _fine(session) if turn is None else f"turn {turn} ran to its end")


def _fine(session: Session) -> str:
    turns = session.facts["turn_count"]
    return f"{count(turns, 'turn')}: each ran to its end" if turns else "it has no turn of its own"


def _turn_lines(one: Diagnosis) -> Iterator[Line]:
    running = " (or it is still running)" if one.may_be_running else ""
    yield Line(0, f"turn {one.turn}  {one.state}: {one.headline}{running}", "", "bad")
    for label, text in _parts(one):
        if text:
            yield Line(1, f"{label:<9}", text)
    yield from (Line(1, f"{label:<9}", text) for label, text in _lists(one))


def _parts(one: Diagnosis) -> Iterator[tuple[str, str]]:
    yield "cause", one.cause
    yield "ended", one.ended
    bracket = one.last_bracket
    if bracket is not None:
        step = f" of step {bracket.step}" if bracket.step is not None else ""
        yield "last", f"{bracket.type}{step}, event #{bracket.seq} in line {bracket.line}"
    yield "missing", ", ".join(one.missing)
    yield "meaning", one.meaning
    if one.failure is not None:
        facts = {f"error_{name}": value for name, value in one.failure._asdict().items()}
        yield "failure", failure_words(facts) + (f", told by #{one.failure.seq}" if one.failure.seq is not None else "")
    yield "model", route({"provider": one.provider, "model": one.model}) if one.provider or one.model else "none asked"
    yield "settings", settings_words(one.settings)
    yield "format", "not told" if one.format_version is None else str(one.format_version)


def _lists(one: Diagnosis) -> Iterator[tuple[str, str]]:
    for label, texts in (("note", one.notes), ("next", [f"{step.command}  # {step.shows}" for step in one.next])):
        yield from ((label if number == 0 else "", text) for number, text in enumerate(texts))


def list_rows(found: list[Row]) -> list[tuple[object, ...]]:
    """Rows of the table of sessions worth a look, under LIST_HEADERS."""
    return [
        (
            row["session_id"],
            None if row["last_event_at"] is None else row["last_event_at"].strftime("%Y-%m-%d %H:%M"),
            "; ".join(_reasons(row)),
            row["last_turn"],
            one_line(row["project"] or "", 40),
            one_line(row["title"] or "", 40),
        )
        for row in found
    ]


LIST_HEADERS = ("session", "last event", "why", "turn", "project", "title")


def _reasons(row: Row) -> Iterator[str]:
    if row["verdict"] == "refused":
        yield f"log refused ({row['inexact_reason']})"
    elif row["verdict"] != "clean":
        yield f"log {row['verdict']}"
    if row["states"]:
        yield one_line(row["states"]) + (f", last {row['last_error_code']}" if row["last_error_code"] else "")

"""What a session is, in a few lines: whose log, how whole, in which setting, how much."""

from __future__ import annotations

from collections.abc import Iterator

from turnlake.inspect.screen import Line
from turnlake.inspect.session import Row, Session
from turnlake.inspect.words import count, instant, log_place, money, one_line, tokens

# More findings than these are counted, not named.
NAMED = 5

SETTINGS = {
    "permission_preset": "permission/preset",
    "sandbox_mode": "sandbox/mode",
    "approval_policy": "approval/policy",
    "agent_preset": "agent-preset/selected",
}


def settings(session: Session, before: int | None = None) -> dict[str, str | None]:
    """What was in force before an event, or at the end; the agent preset is that of the header until one is chosen."""
    found: dict[str, str | None] = dict.fromkeys(SETTINGS)
    found["agent_preset"] = session.facts["agent_preset"]
    names = {kind: name for name, kind in SETTINGS.items()}
    for event in session.events:
        if event["type"] in names and (before is None or event["seq"] < before):
            found[names[event["type"]]] = event["label"]
    return found


def settings_words(found: dict[str, str | None]) -> str:
    """The same in words; what no event tells is left out."""
    texts = [f"{name.replace('_', ' ')} {one_line(value, 60)}" for name, value in found.items() if value is not None]
    return ", ".join(texts) or "the log tells none"


def overview(session: Session) -> Iterator[Line]:
    """The lines."""
    facts = session.facts
    yield Line(0, f"session {session.session_id}", "", "heading")
    for label, text in _parts(session, facts):
        if text:
            yield Line(1, f"{label:<9}", text)
    if not facts["is_exact"]:
        yield Line(1, "not exact", f"what the model saw can't be told to the letter: {facts['inexact_reason']}", "bad")
    grave = [finding for finding in session.findings if finding["severity"] != "advisory"]
    for finding in sorted(grave, key=lambda finding: finding["severity"])[:NAMED]:
        yield Line(1, f"{finding['severity']:<9}", _finding_words(finding), "bad")
    if len(grave) > NAMED:
        yield Line(1, "and      ", f"{len(grave) - NAMED} more: marts.findings", "bad")


def _parts(session: Session, facts: Row) -> Iterator[tuple[str, str]]:
    yield "title", one_line(facts["title"] or "")
    yield "project", one_line(facts["project"] or "")
    yield "created", instant(facts["created_at"])
    yield "log", log_words(facts)
    yield "lineage", lineage_words(facts)
    yield "settings", settings_words(settings(session))
    yield "in all", totals_words(facts, session.attempts)


def log_words(facts: Row) -> str:
    """Which file, of which format, and whether the harness would take it."""
    version = "no format version" if facts["format_version"] is None else f"format {facts['format_version']}"
    dialect = "" if facts["dialect"] == "real" else f" ({facts['dialect']})"
    why = f" ({facts['verdict_reason']})" if facts["verdict_reason"] else ""
    torn = f", torn: {count(facts['torn_bytes'], 'byte')} behind the last complete line" if facts["is_torn"] else ""
    return f"{log_place(facts)}, {version}{dialect}, {facts['verdict']}{why}{torn}"


def lineage_words(facts: Row) -> str:
    """Whose child it is."""
    if facts["parent_session_id"] is None:
        return ""
    kind = "subagent of" if facts["origin"] == "subagent" else "forked from"
    inherited = facts["inherited_event_count"]
    prefix = f"; events #0–{inherited - 1} are inherited and count there" if inherited else ""
    return f"{kind} {facts['parent_session_id']}{prefix}"


def totals_words(facts: Row, attempts: list[Row]) -> str:
    """Its own work in numbers, from its row and its calls of models."""
    counts = [count(facts[f"{name}_count"], name) for name in ("turn", "step")]
    counts += [count(facts["attempt_count"], "model call"), count(facts["tool_call_count"], "tool call")]
    spent = f", {tokens(facts, attempts)}, {money(facts, facts['currency'])}" if facts["attempt_count"] else ""
    unknown = facts["unknown_usage_attempt_count"]
    lacks = f"; {count(unknown, 'call')} of unknown usage not in it" if unknown else ""
    return ", ".join(counts) + spent + lacks


def _finding_words(finding: Row) -> str:
    places = (("line", finding["line"]), ("byte", finding["byte_offset"]), ("#", finding["seq"]))
    place = ", ".join(f"{name}{'' if name == '#' else ' '}{value}" for name, value in places if value is not None)
    return f"{finding['code']}{f' ({place})' if place else ''}: {one_line(finding['detail'] or '')}"

"""What one request was built from, as lines and as JSON: messages in the model's order, header, context."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from turnlake.inspect.screen import Line
from turnlake.inspect.seen import Seen
from turnlake.inspect.session import Session
from turnlake.inspect.timeline import author
from turnlake.inspect.words import count, message_text, one_line, route, told


def request_lines(session: Session, seen: Seen, *, full: bool) -> Iterator[Line]:
    """What the model saw, message by message."""
    shown = seen.shown
    where = "at the end of the log" if seen.upto is None else f"before event #{seen.upto}"
    about = f"{count(len(shown), 'message')}, session {session.session_id}"
    yield Line(0, f"what the model saw {where}", about, "heading")
    yield from _request_lines(seen, full=full)
    stored = {message["seq"]: message for message in session.messages}
    for number, (seq, message) in enumerate(shown, 1):
        row = stored.get(seq)
        event = session.by_seq.get(seq, {})
        facts = {
            "source_kind": event.get("source_kind"),
            "source_name": event.get("source_name"),
            "is_human": row["is_human"] if row else None,
            "role_normalised": row["role_normalised"] if row else message.get("role"),
        }
        who, tone = author(facts)
        replaced = f"  [takes the place of what was there before #{seq}]" if row and row["is_replacement"] else ""
        text = told(message_text(message), full=full) or "(empty)"
        yield Line(1, f"{number:>3}  #{seq} {who}", text + replaced, tone)
    yield from (Line(1, "not exact", fault, "bad") for fault in seen.faults)


def request_json(session: Session, seen: Seen) -> dict[str, Any]:
    """The same whole."""
    return {
        "session_id": session.session_id,
        "before_seq": seen.upto,
        "is_exact": session.facts["is_exact"] and not seen.faults,
        "request_header": seen.header,
        "request_context": seen.context,
        "messages": [{"seq": seq, "message": message} for seq, message in seen.shown],
    }


def header_lines(session: Session, seen: Seen, *, full: bool) -> Iterator[Line]:
    """The header of the log member by member, and what its requests carry."""
    yield Line(0, "header of the log", "" if session.facts["header_id"] is not None else "none", "heading")
    for name, value in _log_header(session).items():
        yield Line(1, f"{name:<16}", one_line(_shown(value)))
    yield Line(0, "request", "", "heading")
    yield from _request_lines(seen, full=full)
    for tool in (seen.header or {}).get("tools", ()):
        about = tool.get("description", "") if isinstance(tool, Mapping) else tool
        name = tool.get("name", "") if isinstance(tool, Mapping) else "?"
        yield Line(1, f"tool {one_line(str(name), 60)}", told(str(about), full=full))


def header_json(session: Session, seen: Seen) -> dict[str, Any]:
    """The same whole."""
    return {
        "log": _log_header(session) or None,
        "request_header": seen.header,
        "request_context": seen.context,
    }


def _log_header(session: Session) -> dict[str, Any]:
    """The header line as it is written; nothing where the log has none that can be read."""
    query = "select header from raw.logs where log_id = ?"
    [(text,)] = session.db.execute(query, [session.facts["log_id"]]).fetchall()
    parsed = json.loads(text) if text is not None else {}
    return parsed if isinstance(parsed, dict) else {}


def _request_lines(seen: Seen, *, full: bool) -> Iterator[Line]:
    header, context = seen.header, seen.context
    if header is None:
        yield Line(1, "request", "no header recorded: model and tools are not known", "bad")
        return
    config = header.get("config")
    named: Mapping[str, Any] = config if isinstance(config, Mapping) else {}
    others = {name: value for name, value in named.items() if name not in ("provider", "model")}
    parts = [route({name: named.get(name) for name in ("provider", "model")})]
    parts += [f"{name} {_shown(value)}" for name, value in others.items()]
    window = (context or {}).get("contextWindow")
    parts += [f"window {window:,} tokens"] if isinstance(window, int) else []
    yield Line(1, "request", one_line(", ".join(map(str, parts))))
    tools = [tool.get("name", "?") if isinstance(tool, Mapping) else "?" for tool in header.get("tools", ())]
    yield Line(1, "tools", one_line(f"{len(tools)}: {', '.join(map(str, tools))}" if tools else "none"))
    if header.get("system"):
        yield Line(1, "system prompt", told(str(header["system"]), full=full))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)

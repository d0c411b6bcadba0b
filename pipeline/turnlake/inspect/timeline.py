"""A session as lines in the order of its log: turns, steps, messages, calls beside their results, what came between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from turnlake.inspect.inbox import NOT_TOLD, inbox_facts, rejected
from turnlake.inspect.marks import QUIET, mark_line
from turnlake.inspect.screen import Line, Tone
from turnlake.inspect.session import Row, Session
from turnlake.inspect.words import (
    OUTCOMES,
    count,
    duration,
    end_words,
    instant,
    message_text,
    money,
    one_line,
    route,
    seqs,
    tokens,
    told,
)

FINE = ("completed",)
LAST = 1 << 62


class Entry(NamedTuple):
    """A line and where it stands: behind a line of the log, among several there by rank."""

    place: int
    rank: int
    turn: int | None
    line: Line


class Timeline:
    """The lines of one session; `full` shows texts whole and every event."""

    def __init__(self, session: Session, *, full: bool) -> None:
        self.session, self.full = session, full
        self._line_of = {event["seq"]: event["line"] for event in session.events}
        self._messages = {message["seq"]: message for message in session.messages}
        self._shadowed: defaultdict[int, list[int]] = defaultdict(list)
        for message in session.messages:
            if message["shadowed_by_seq"] is not None:
                self._shadowed[message["shadowed_by_seq"]].append(message["seq"])

    def lines(self, turn: int | None = None) -> Iterator[Line]:
        """The lines of one turn, or of all that happened, in the order of the log."""
        entries = [*self._turns(), *self._steps(), *self._attempts(), *self._calls(), *self._texts(), *self._marks()]
        for entry in sorted(entries, key=lambda entry: entry[:2]):
            if turn is None or entry.turn == turn:
                yield entry.line

    def _entry(self, seq: int | None, rank: int, turn: int | None, line: Line) -> Entry:
        return Entry(self._line_of.get(seq, LAST) if seq is not None else LAST, rank, turn, line)

    def _turns(self) -> Iterator[Entry]:
        starts = [turn["start_seq"] for turn in self.session.turns if turn["start_seq"] is not None]
        for turn in self.session.turns:
            start, end = turn["start_seq"], turn["end_seq"]
            place = start if start is not None else end
            yield self._entry(place, -2, turn["turn"], Line(0, ""))
            yield self._entry(place, 0, turn["turn"], self._turn_line(turn))
            yield from self._rejected(turn)
            tone: Tone = "plain" if turn["state"] in FINE else "bad"
            if end is not None:
                label = f"#{end} end of turn {turn['turn']}"
                yield self._entry(end, 9, turn["turn"], Line(1, label, f"{turn['state']}: {end_words(turn)}", tone))
                continue
            # It reaches as far as the next one starts.
            until = min((seq for seq in starts if start is not None and seq > start), default=None)
            label, text = f"turn {turn['turn']} has no end", f"last seen in phase {turn['last_phase']}"
            yield self._entry(until, -3, turn["turn"], Line(1, label, text, "bad"))

    def _turn_line(self, turn: Row) -> Line:
        calls = self.session.in_turn(self.session.attempts, turn["turn"])
        parts = [
            f"{turn['state']}  #{_span(turn)}  {instant(turn['started_at'])}  {duration(turn['duration_ms'])}",
            count(turn["step_count"], "step"),
            count(turn["attempt_count"], "model call"),
            count(turn["tool_call_count"], "tool call"),
            *([tokens(turn, calls), money(turn, self._currency)] if turn["attempt_count"] else []),
        ]
        return Line(0, f"turn {turn['turn']}", ", ".join(parts), "heading")

    def _rejected(self, turn: Row) -> Iterator[Entry]:
        """The input that a blocked turn had taken and that never became a message."""
        if turn["state"] != "blocked":
            return
        found = rejected(self.session, turn)
        for message in found:
            who, _ = author(inbox_facts(message))
            line = Line(1, f"rejected {who}", told(message_text(message), full=self.full), "bad")
            yield self._entry(turn["end_seq"], 8, turn["turn"], line)
        if not found:
            yield self._entry(turn["end_seq"], 8, turn["turn"], Line(1, "rejected", NOT_TOLD, "bad"))

    @property
    def _currency(self) -> str:
        return str(self.session.facts["currency"])

    def _steps(self) -> Iterator[Entry]:
        for step in self.session.steps:
            place = step["start_seq"] if step["start_seq"] is not None else step["end_seq"]
            ended = "no end" if step["is_open"] else duration(step["duration_ms"])
            label = f"step {step['step']}"
            text = f"#{_span(step)}  {ended}"
            yield self._entry(place, 1, step["turn"], Line(1, label, text, "heading"))

    def _attempts(self) -> Iterator[Entry]:
        # Calls of a branch that was written again were billed all the same, and stand in no turn shown here.
        has_branches = any(attempt["branch"] for attempt in self.session.attempts)
        for attempt in self.session.attempts:
            name = f"model call {attempt['attempt']}" if attempt["kind"] == "model" else "compaction call"
            name += f" of branch {attempt['branch']}" if has_branches else ""
            tone: Tone = "faint" if attempt["outcome"] == "message" else "bad"
            line = Line(2, name, attempt_words(attempt, self._currency), tone)
            yield Entry(attempt["last_line"], 2, attempt["turn"], line)

    def _calls(self) -> Iterator[Entry]:
        for call in self.session.calls:
            seq = call["call_seq"] if call["call_seq"] is not None else call["result_seq"]
            place = seq if seq is not None else self._advertised(call)
            yield self._entry(place, 5, call["turn"], self._call_line(call))

    def _advertised(self, call: Row) -> int | None:
        """The message that asks for a call that has neither start nor result."""
        for event in self.session.events:
            if call["call_id"] in (event["tool_call_ids"] or ()) and event["turn"] == call["turn"]:
                return int(event["seq"])
        return None

    def _call_line(self, call: Row) -> Line:
        numbers = [seq for seq in (call["call_seq"], call["result_seq"]) if seq is not None]
        label = f"{'→'.join(f'#{seq}' for seq in numbers) or '(never started)'} tool {call['tool_name'] or '(unnamed)'}"
        nested = f" (dispatched by {call['parent_call_id']})" if call["is_nested"] else ""
        result = self._messages.get(call["result_seq"]) if call["result_seq"] is not None else None
        said = "" if result is None else f": {told(result['text'], full=self.full)}{self._fate(result)}"
        outcome = f"{call_words(call)}{said}"
        arguments = told(call["arguments"] or "", full=self.full)
        tone: Tone = "tool" if call["outcome"] == "ok" else "bad"
        return Line(2, label, f"{arguments}{nested}  [{call['call_id']}]\n{outcome}", tone)

    def _texts(self) -> Iterator[Entry]:
        answered = {call["result_seq"] for call in self.session.calls}
        for message in self.session.messages:
            if message["seq"] not in answered:
                is_within = message["turn"] is not None and not message["is_inherited"]
                depth = 0 if not is_within else 1 if message["step"] is None else 2
                # The turns of a parent have numbers too; they are none of this session's.
                turn = message["turn"] if is_within else None
                yield self._entry(message["seq"], 3, turn, self._text_line(message, depth))

    def _text_line(self, message: Row, depth: int) -> Line:
        event = self.session.by_seq.get(message["seq"], {})
        who, tone = author(message | {"source_name": event.get("source_name")})
        calls = [name or "?" for name in event.get("tool_call_names") or ()]
        asks = f"(asks for {', '.join(calls)})" if calls else ""
        cut = "(cut short)" if event.get("is_interrupted") else ""
        said = told(message["text"], full=self.full) or ("" if calls else "(empty)")
        inherited = " inherited" if message["is_inherited"] else ""
        text = "  ".join(part for part in (said, asks, cut) if part) + self._fate(message)
        return Line(depth, f"#{message['seq']} {who}{inherited}", text, tone)

    def _fate(self, message: Row) -> str:
        """What a message took the place of, and what took its own."""
        marks = []
        if message["is_replacement"]:
            marks.append(f"takes the place of {seqs(self._shadowed[message['seq']]) or 'nothing that is there'}")
        if message["shadowed_by_seq"] is not None:
            marks.append(f"replaced by #{message['shadowed_by_seq']}")
        return "".join(f"  [{mark}]" for mark in marks)

    def _marks(self) -> Iterator[Entry]:
        own = {turn["turn"]: turn for turn in self.session.turns}
        turn: int | None = None
        for event in self.session.events:
            if event["type"] == "turn/start":
                turn = event["turn"] if event["turn"] in own else None
            if self.full or event["type"] not in QUIET:
                line = mark_line(event)
                if line is not None:
                    depth = 0 if turn is None else 2
                    yield Entry(event["line"], 4, turn, line._replace(depth=depth))
            if event["type"] == "turn/end":
                turn = None


def author(message: Row) -> tuple[str, Tone]:
    """Who a message of the transcript is from, and its colour: people are told from what was put in for them."""
    kind = message["source_kind"]
    if message["is_human"]:
        return "human", "human"
    if message["role_normalised"] == "assistant":
        return "assistant", "model"
    if message["role_normalised"] in ("tool", "system", "developer"):
        return str(message["role_normalised"]), "tool" if message["role_normalised"] == "tool" else "faint"
    name = f" {one_line(message['source_name'], 40)}" if message.get("source_name") else ""
    return f"injected ({one_line(kind, 40) if kind else 'source not told'}{name})", "injected"


def attempt_words(attempt: Row, currency: str) -> str:
    """A call of a model in one line: route, times, tokens, money, how it came out."""
    outcome = attempt["outcome"] if attempt["outcome"] != "message" else ""
    failure = attempt["error_code"] or ""
    empty = "empty answer at the output limit" if attempt["is_empty_max_tokens"] else ""
    if not empty and attempt["finish_kind"] == "max-tokens":
        empty = "cut at the output limit"
    first = f"first token after {duration(attempt['ttft_ms'])}" if attempt["ttft_ms"] is not None else ""
    took = f"{duration(attempt['duration_ms'])} in all" if attempt["duration_ms"] is not None else ""
    spent = [tokens(attempt), money(attempt, currency)]
    parts = [f"{outcome} {failure}".strip(), empty, route(attempt), first, took, *spent]
    return "; ".join(one_line(part) for part in parts if part)


def call_words(call: Row) -> str:
    """How a tool call came out and how long it took, waiting for people apart."""
    words = OUTCOMES.get(call["outcome"], call["outcome"])
    failure = f" ({call['error_code'] or call['error_name']})" if call["error_code"] or call["error_name"] else ""
    took = f", {duration(call['wall_ms'])}" if call["wall_ms"] is not None else ""
    waited = f" of which {duration(call['approval_wait_ms'])} waiting for approval" if call["approval_wait_ms"] else ""
    skewed = ", a clock was set back meanwhile" if call["is_clock_skewed"] else ""
    child = f", worked by session {call['spawned_session_id']}" if call["spawned_session_id"] else ""
    return f"{words}{failure}{took}{waited}{skewed}{child}"


def _span(row: Row) -> str:
    first, last = ("?" if row[name] is None else str(row[name]) for name in ("start_seq", "end_seq"))
    return f"{first}–{last}"

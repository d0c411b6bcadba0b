"""What the log of one turn tells about its end: the facts that `diagnose` decides by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from turnlake.inspect.session import Row, Session

BRACKETS = ("turn/start", "step/start", "step/end", "turn/end")
FAILING = ("llm/retry", "assistant/attempt", "turn/end", "compaction/end")
# A code that says nothing gives way to any other.
VAGUE = "UNKNOWN"


class Failure(NamedTuple):
    """The first failure of a turn that has a code of its own; `seq` is the event that tells of it."""

    code: str | None
    status: int | None
    request_id: str | None
    message: str | None
    seq: int | None


class CutCall(NamedTuple):
    """A call that hit its output limit: `max_tokens` is what its request stated, `output_tokens` what it used."""

    step: int
    attempt: int
    max_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True)
class Evidence:
    """One own turn and the events from its start up to the next turn."""

    session: Session
    turn: Row

    @cached_property
    def events(self) -> list[Row]:
        """The events of the turn's bracket, its own end included."""
        number = self.turn["turn"]
        first, last = self.turn["start_seq"], self.turn["end_seq"]
        if first is None:
            return [e for e in self.session.events if e["turn"] == number and not e["is_inherited"]]
        later = (t["start_seq"] for t in self.session.turns if t["start_seq"] is not None and t["start_seq"] > first)
        until = last if last is not None else min(later, default=None)
        behind = [e for e in self.session.events if e["seq"] >= first and (until is None or e["seq"] <= until)]
        return behind if last is not None else [e for e in behind if e["seq"] != until]

    @cached_property
    def before_closers(self) -> list[Row]:
        """The events that were there before the harness closed the turn afterwards."""
        if not self.turn["is_repaired"]:
            return [event for event in self.events if event["seq"] != self.turn["end_seq"]]
        kept = [event for event in self.events if event["type"] != "turn/end"]
        while len(kept) > 1 and _is_made_up(kept[-1], kept[-2]):
            kept.pop()
        return kept

    @property
    def last_bracket(self) -> Row | None:
        """The last start or end of turn or step that the turn itself wrote, before what ended it."""
        brackets = [event for event in self.before_closers if event["type"] in BRACKETS]
        return brackets[-1] if brackets else None

    @property
    def is_step_open(self) -> bool:
        """The last step had no end when the turn stopped."""
        return self.last_bracket is not None and self.last_bracket["type"] == "step/start"

    @cached_property
    def attempts(self) -> list[Row]:
        """Its calls of models."""
        return [one for one in self.session.in_turn(self.session.attempts, self.turn["turn"]) if one["kind"] == "model"]

    @cached_property
    def calls(self) -> list[Row]:
        """Its tool calls, nested ones too."""
        return self.session.in_turn(self.session.calls, self.turn["turn"])

    @property
    def cut_calls(self) -> list[CutCall]:
        """Its calls that hit the output limit."""
        cut = [one for one in self.attempts if one["finish_kind"] == "max-tokens"]
        return [CutCall(one["step"], one["attempt"], self._max_tokens(one), one["output_tokens"]) for one in cut]

    def _max_tokens(self, attempt: Row) -> int | None:
        """What the header in force at the end of a call states; the last one before that, inherited or not."""
        headers = [
            e for e in self.session.events if e["type"] == "request/header" and e["line"] <= attempt["last_line"]
        ]
        header = self.payload(headers[-1]).get("header") if headers else None
        config = header.get("config") if isinstance(header, dict) else None
        limit = config.get("maxTokens") if isinstance(config, dict) else None
        return limit if type(limit) is int else None

    @property
    def unanswered(self) -> list[Row]:
        """Calls without a result of their own: none at all, or one that the harness made up."""
        return [call for call in self.calls if call["outcome"] in ("open", "unknown", "not_started")]

    @cached_property
    def retries(self) -> list[Row]:
        """The retries announced in the last step that has any."""
        found = [event for event in self.events if event["type"] == "llm/retry"]
        return [event for event in found if event["step"] == found[-1]["step"]]

    @property
    def is_waiting_to_retry(self) -> bool:
        """The last call failed, and the next one was not started."""
        kinds = [event["type"] for event in self.before_closers]
        marks = [kind for kind in kinds if kind in ("llm/retry", "llm/retry-started", "step/start")]
        return bool(marks) and marks[-1] == "llm/retry"

    @property
    def are_retries_used_up(self) -> bool:
        """As many retries were announced as the harness allows itself, and the last was started."""
        if not self.retries or self.is_waiting_to_retry:
            return False
        last = self.retries[-1]
        allowed = self.payload(last).get("maxRetries")
        return isinstance(allowed, int) and isinstance(last["retry"], int) and last["retry"] >= allowed

    @property
    def is_compacting(self) -> bool:
        """A compaction was begun in the turn and has no end."""
        own = self.session.in_turn(self.session.compactions, self.turn["turn"])
        return any(one["outcome"] == "open" for one in own)

    @property
    def has_header(self) -> bool:
        """A request header precedes the end of the turn, be it inherited."""
        end = self.events[-1]["seq"] if self.events else -1
        return any(e["type"] == "request/header" and e["seq"] <= end for e in self.session.events)

    @property
    def is_answer_cut(self) -> bool:
        """Its last answer is marked as interrupted."""
        answers = [event for event in self.events if event["type"] == "assistant/message"]
        return bool(answers) and bool(answers[-1]["is_interrupted"])

    @property
    def failure(self) -> Failure | None:
        """The first failure with a code that says something, else the first one; its request id if any tells one."""
        events = [e for e in self.events if e["type"] in FAILING and (e["error_code"] or e["error_message"])]
        if not events:
            codes = [one["error_code"] for one in self.attempts if one["error_code"]]
            return Failure(codes[0], None, None, None, None) if codes else None
        first = next((event for event in events if event["error_code"] not in (None, VAGUE)), events[0])
        same = [event for event in events if event["error_code"] == first["error_code"]]
        status, request_id, message = (_first(event[f"error_{name}"] for event in same) for name in _FACTS)
        return Failure(first["error_code"], status, request_id, message, first["seq"])

    def payload(self, event: Row) -> dict[str, Any]:
        """What an event holds beside its columns; nothing where it can't be parsed."""
        query = "select coalesce(sql_payload, payload) from raw.events where log_id = ? and line = ?"
        [(text,)] = self.session.db.execute(query, [self.session.facts["log_id"], event["line"]]).fetchall()
        try:
            parsed = orjson.loads(text)
        except orjson.JSONDecodeError:
            return {}
        return parsed if isinstance(parsed, dict) else {}


_FACTS = ("status", "request_id", "message")


def _first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _is_made_up(event: Row, before: Row) -> bool:
    """Whether the harness wrote an event to close what was open; asked of what stands right before such an end."""
    if event["type"] == "tool/result":
        return event["error_code"] in ("TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED")
    # A closer has the time of the last event that was there; a step's own end is a little later than that.
    return bool(event["type"] == "step/end" and event["time_ms"] == before["time_ms"])

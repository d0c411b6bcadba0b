"""Numbers, reasons and messages in words, for people who debug a session."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from turnlake.console import UNKNOWN, as_text

Row = Mapping[str, Any]
SHOWN = 160

ENDS = {
    "completed": "it ran to its end",
    "max-tokens": "an answer hit the output limit of its model",
    "blocked": "the check before a step refused it",
    "error": "it failed",
    "interrupted": "the harness closed it afterwards: its process had died",
    "forked": "a fork was made while it was open, and closed it",
    "dangling": "the log holds no end of it",
    "unknown": "its end states no reason",
}
ABORTS = {
    "user": "a person cancelled it",
    "parent": "the session it worked for cancelled it",
    "disposed": "the program closed the session",
    "legacy": "it was cancelled; a log of this age does not say by whom",
}
OUTCOMES = {
    "ok": "ok",
    "error": "reported an error",
    "denied": "was denied",
    "aborted": "was cancelled before it ran",
    "not_started": "was never started; the result is made up",
    "unknown": "was cut off, what it did is unknown; the result is made up",
    "open": "has no result",
}


def end_words(turn: Row) -> str:
    """How a turn of marts.turns ended, in words; unknown kinds as written."""
    if turn["state"] == "aborted":
        detail = turn["reason_detail"]
        return ABORTS.get(detail, f"it was cancelled: {detail}" if detail else "it was cancelled")
    failure = f": {failure_words(turn)}" if turn["error_code"] or turn["error_message"] else ""
    return ENDS.get(turn["state"], f"it ended as {turn['state']}") + failure


def failure_words(row: Row) -> str:
    """Code, status, message and request id of a failure, what is known of them."""
    parts = [row["error_code"], row["error_status"] and f"status {row['error_status']}"]
    head = ", ".join(part for part in parts if part)
    text = ": ".join(part for part in (head, one_line(row["error_message"] or "")) if part)
    return text + (f" (request {row['error_request_id']})" if row["error_request_id"] else "")


def duration(ms: int | None) -> str:
    """Milliseconds in the unit that suits them; unknown as a dash."""
    if ms is None:
        return UNKNOWN
    if abs(ms) < 1000:
        return f"{ms} ms"
    if abs(ms) < 120_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(abs(ms) // 1000, 60)
    return f"{'-' if ms < 0 else ''}{minutes:,} min {seconds} s"


def instant(at: datetime | None) -> str:
    """An instant to the second, in UTC."""
    return UNKNOWN if at is None else at.strftime("%Y-%m-%d %H:%M:%SZ")


def count(number: int | None, noun: str) -> str:
    """`3 turns`, `1 turn`; unknown as a dash."""
    shown = UNKNOWN if number is None else f"{number:,}"
    return f"{shown} {noun}{'' if number == 1 else 's'}"


def tokens(row: Row, calls: Iterable[Row] = ()) -> str:
    """The tokens of a call, or the sum of `calls`: known parts only, `usage unknown` where there is none."""
    if row["total_tokens"] is None:
        return "usage unknown"
    parts = [f"{row['input_tokens']:,} in"]
    parts += [f"{row[f'{name}_tokens']:,} {words}" for name, words in _CACHES if row[f"{name}_tokens"]]
    silent = sum(call["total_tokens"] is not None and call["reasoning_tokens"] is None for call in calls)
    lacks = f", not told of {count(silent, 'call')}" if silent else ""
    reasoning = f" ({row['reasoning_tokens']:,} reasoning{lacks})" if row["reasoning_tokens"] else ""
    return " + ".join(parts) + f", {row['output_tokens']:,} out{reasoning} tokens"


_CACHES = (("cache_read", "cached"), ("cache_write", "written to the cache"))


def money(row: Row, currency: str) -> str:
    """What it cost, all digits that are not 0; `cost unknown` where it is."""
    if row["cost"] is None:
        return "cost unknown"
    whole, _, digits = as_text(row["cost"]).partition(".")
    return f"{whole}.{digits.rstrip('0').ljust(2, '0')} {currency}"


def route(row: Row) -> str:
    """Provider and model."""
    return f"{row['provider'] or 'unknown provider'}/{row['model'] or 'unknown model'}"


def log_place(facts: Row) -> str:
    """Where a log is, as one word for a shell; of one from another machine the path there and the machine's name."""
    source, path = facts["source"], facts["path"]
    if facts["machine"] is not None:
        return f"{shlex.quote(path)} (of machine {facts['machine']})"
    is_itself = source.rpartition("/")[2] == path.partition("!/")[0]
    inside = path.partition("!/")[1:]
    return shlex.quote(source + "".join(inside) if is_itself else f"{source.rstrip('/')}/{path}")


def seqs(numbers: Sequence[int]) -> str:
    """`#3, #7–9`: numbers of events, runs of them together."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"#{first}" if first == last else f"#{first}–{last}" for first, last in runs)


def one_line(text: str, length: int = SHOWN) -> str:
    """The text on one line, cut where it is longer, with its length told then."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[:length]}… ({len(text):,} characters)"


def told(text: str | None, *, full: bool) -> str:
    """A text for people: whole, or on one line and cut."""
    if text is None:
        return "(can't be read)"
    return text if full else one_line(text)


def message_text(message: Mapping[str, Any]) -> str:
    """A message as the model gets it; a message that is itself a result (since format 4) says of which call."""
    text, call_id = content_text(message.get("content")), message.get("toolCallId")
    return _result(call_id, text, is_error=bool(message.get("isError"))) if call_id is not None else text


def content_text(content: Any) -> str:
    """The content of a message as the model gets it, block by block, those that are no text named."""
    if isinstance(content, str):
        return content
    return "\n".join(_blocks(content)) if isinstance(content, Iterable) else ""


def _blocks(content: Iterable[Any]) -> Iterator[str]:
    for block in content:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind == "text":
            yield str(block.get("text", ""))
        elif kind == "reasoning":
            yield f"(reasoning) {block.get('text', '')}"
        elif kind == "tool-call":
            yield f"(calls {block.get('name')} {block.get('id')}) {block.get('arguments')}"
        elif kind == "tool-result":
            text = content_text(block.get("content"))
            yield _result(block.get("toolCallId"), text, is_error=bool(block.get("isError")))
        elif kind == "image" and block.get("offloaded"):
            yield "(an image that is not sent any more)"
        else:
            yield f"({kind or 'something that is no block'})"


def _result(call_id: Any, text: str, *, is_error: bool) -> str:
    return f"({'error ' if is_error else ''}result of {call_id}) {text}"

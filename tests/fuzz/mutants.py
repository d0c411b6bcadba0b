"""Logs and files spoilt a little: most of what makes them what they are is left, so that damage gets far inside."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from hypothesis import strategies as st

from logs import VERSIONS, Session, as_raw, as_zstd, dumps, text

Edit = tuple[int, int, str, Any]

ODD_TEXTS = ("", "\x00", "\ud83d", "\u2028", "../../x", "'; drop table t; --", "<script>", "\x1b[31m", "a" * 300)
ODD_NUMBERS = (-1, 0, 1, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**40, 1.5, 1e308, -0.0)
LEAVES = st.sampled_from((None, True, False, *ODD_TEXTS, *ODD_NUMBERS)) | st.integers() | st.text(max_size=8)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def rich(version: int) -> Session:
    """A session with something of most kinds of event."""
    session = Session(version)
    session.system()
    session.turn("\u2028", "\U0001f600").turn_with_call('{"a":1}').open_step()
    if version < 2:
        session.packed(["a", "", "b"])
    session.add("request/header", {"model": "m", "provider": "p", "system": "s", "tools": []})
    retry = {"retryId": "r", "provider": "p", "attempt": 1, "maxRetries": 3, "delayMs": 5, "error": {"message": "busy"}}
    session.add("llm/retry", session.place | retry)
    session.user(surfaceOp={"op": "replace", "startSeq": 2, "endSeq": 2}, sourceEventSeqs=[2])
    session.add("compaction/start", {"compactionId": "c", "turn": 3})
    session.add("compaction/summary", {"compactionId": "c", "usage": {"inputTokens": 1, "outputTokens": 2}})
    session.add("image/offload", {"targets": [{"seq": 3, "imageIndexes": [0]}]})
    session.add("todo/write", {"items": [text("x")]})
    session.add("session/title", {"title": "t"})
    session.step_end()
    session.turn_end("max-tokens")
    return session


RICH = {version: [json.loads(line) for line in rich(version).lines] for version in VERSIONS}
EDITS = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 999), st.sampled_from(("set", "drop", "add", "twice")), JSON),
    min_size=1,
    max_size=5,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each member and element of a JSON value: what holds it, and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def edited(lines: list[Any], edits: list[Edit]) -> list[bytes]:
    """The lines with members set to something else, dropped or added, or lines that stand there twice."""
    lines = json.loads(json.dumps(lines))
    for number, place, how, value in edits:
        at = number % len(lines)
        found = list(places(lines[at]))
        holder, key = found[place % len(found)] if found else (lines, at)
        if how == "twice":
            lines.insert(at, lines[at])
        elif how == "drop":
            del holder[key]
        elif how == "add" and isinstance(holder, dict):
            holder[f"{key}x"] = value
        else:
            holder[key] = value
        if not lines:
            break
    return [dumps(line) for line in lines]


LOGS = st.builds(lambda version, edits: (version, edited(RICH[version], edits)), st.sampled_from(VERSIONS), EDITS)


def spoilt(data: bytes, damage: list[tuple[str, int, bytes]]) -> bytes:
    """Bytes replaced, put in, cut out or repeated somewhere."""
    for how, at, new in damage:
        at %= len(data) + 1
        if how == "put in":
            data = data[:at] + new + data[at:]
        elif how == "repeat":
            data = data[: at + 40] + data[at:]
        elif how == "cut out":
            data = data[:at] + data[at + len(new) :]
        else:
            data = data[:at] + new + data[at + len(new) :]
    return data


DAMAGE = st.lists(
    st.tuples(
        st.sampled_from(("put in", "repeat", "cut out", "replace")),
        st.integers(0, 1 << 20),
        st.binary(min_size=1, max_size=6) | st.sampled_from((b"\x28\xb5\x2f\xfd", b"\n", b"\x00", b"\xff\xff\xff\xff")),
    ),
    max_size=6,
)


def zipped(data: bytes) -> bytes:
    """An export of that log."""
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("session.v4.jsonl", data)
        archive.writestr("subagents/a/session.v4.jsonl", data[:200])
        archive.writestr("media/x.png", b"x")
    return packed.getvalue()


def bytes_of(make: Callable[[list[bytes]], bytes]) -> st.SearchStrategy[bytes]:
    """Files of the logs, spoilt."""
    whole = [make([dumps(line) for line in RICH[version]]) for version in VERSIONS]
    return st.builds(spoilt, st.sampled_from(whole), DAMAGE) | st.binary(max_size=200)


RAW_FILES = bytes_of(as_raw)
ZSTD_FILES = bytes_of(lambda lines: as_zstd(lines, [1, 2, 3, 4]))
ZIP_FILES = bytes_of(lambda lines: zipped(as_raw(lines)))

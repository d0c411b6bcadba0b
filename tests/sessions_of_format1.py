"""The sessions in `fixtures/lake-format-1`, a lake made by the last version with that format."""

from __future__ import annotations

from pathlib import Path

from logs import Session, dumps, file_name, write


def sessions() -> dict[str, Session]:
    """Each session by its folder."""
    packed = Session(0, id="packed").open_step()
    packed.packed(["", "Hé", "llo"], [5, -1])
    packed.chunk({"type": "text-delta", "index": 0, "text": "!"})
    data = packed.place | {"index": 1, "dt": [3], "id": "c1", "name": "bash", "args": ["", "{}"]}
    packed.line({"type": "tool-call-chunks", "seq0": packed.seq, "time0": packed.time, "data": data}, 2)
    packed.chunk({"type": "usage", "usage": {"inputTokens": 8, "outputTokens": 2}})
    packed.assistant(calls=[("c1", "bash", "{}")])
    packed.result(sourceEventSeqs=[packed.call()])
    packed.step_end()
    packed.turn_end()
    packed.line(dumps({"seq": packed.seq, "type": "todo/write", "time": packed.time, "data": {"half": "\ud83d"}}), 1)
    early = Session(2, id="early").turn("Hi", "Hello").turn_with_call('{"a":1}')
    early.open_step()
    last = early.seq - 1
    early.user("In its place", surfaceOp={"op": "replace", "start": last, "end": last}, sourceEventSeqs=[0, last])
    newest = Session(4, id="newest").turn("Hi", "He\U0001f600").turn_with_call()
    newest.open_step()
    runs = [
        {"type": "reasoning-chunks", "time0": newest.time, "index": 0, "dt": [1, 2], "texts": ["", "a", "b"]},
        {"type": "tool-call-chunks", "time0": newest.time, "index": 1, "dt": [], "id": "c", "name": "n", "args": [""]},
        {"type": "chunk", "time": newest.time, "chunk": {"type": "usage", "usage": {"inputTokens": 3}}},
    ]
    newest.add("assistant/attempt", newest.place | {"stream": runs})
    newest.user("\u2028")
    return {"packed": packed, "early": early, "newest": newest}


def write_sessions(root: Path) -> None:
    """Their logs below a sessions root."""
    for name, session in sessions().items():
        write(root, session.raw, file_name(session.version), session=name)

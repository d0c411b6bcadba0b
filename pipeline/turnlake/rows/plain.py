"""Lines of one log -> rows, with a short way for stream chunks written just as the harness writes them.

More than half of the lines of a v0 or v1 log are chunks, packed or alone, that follow one another as they should.
Such a line becomes a row without the steps between. Whatever is not exactly so (another order of members, a number
that is no integer, a seq or a time out of order, a step that is not open) goes the general way through `Scan`, which
alone knows what to make of it. Both ways give the same rows.
"""

from __future__ import annotations

from types import NoneType
from typing import Any

import orjson

from turnlake.format.runs import PACKED_TYPES, ROW_TYPES, first_token, plain_total
from turnlake.format.scan import Scan
from turnlake.format.values import MAX_SAFE, Object, may_be_deep
from turnlake.messages.sketch import Sketch
from turnlake.rows.facts import Facts, chunk_facts
from turnlake.rows.part import PartRows
from turnlake.rows.payload import json_text
from turnlake.sources.lines import Block, Overlong

_PACKED_ROW = ("type", "seq0", "time0", "data")
_DELTAS = ("turn", "step", "index", "dt", "texts")
_CALL = ("turn", "step", "index", "dt", "id", "name", "args")
_CALL_GOES_ON = ("turn", "step", "index", "dt", "id", "args")
_EVENT = ("type", "seq", "time", "data")
_CHUNK = ("turn", "step", "chunk")
_NO_FACTS: Facts = {}


class LogRows:
    """Makes the rows of one log where someone wants them, and sketches it.

    With `is_short_way` False every line goes the general way.
    """

    def __init__(self, scan: Scan, log_id: str, sketch: Sketch, *, is_short_way: bool = True) -> None:
        self._scan = scan
        self._sketch = sketch
        self._log_id = log_id
        self._is_short_way = is_short_way
        self._rows: PartRows | None = None
        self._is_provisional = False
        # Where the log stands: the next seq, the time of the event before, the open turn and step.
        self._seq = self._before = 0
        self._turn: int | None = None
        self._step: int | None = None
        # The lines taken that the scan has not heard of: how many, the last one, the type of its chunks.
        self._lag = 0
        self._last: tuple[int, int, bytes] = (0, 0, b"")
        self._chunk_type = ""
        # The first of them, as the line and seq it has, and the last one's chunk where it tells of the call.
        self._first = (0, 0)
        self._telling: Object | None = None

    def add(self, block: Block, rows: PartRows | None) -> None:
        """The rows of the next block of lines; ends early where the scan stops. None wants the sketch alone."""
        self._rows, self._is_provisional = rows, block.is_provisional
        loads, scan, is_plain, offset = orjson.loads, self._scan, False, block.offset
        # Not kept by the object: that would be a cycle, and there is no collector while rows are made.
        ways = {"assistant/chunk": self._lone, **dict.fromkeys(PACKED_TYPES, self._packed)}
        if not self._is_short_way:
            ways.clear()
        for line, raw in enumerate(block.lines, block.number):
            way, value = None, None
            try:
                value = loads(raw)  # type: ignore[arg-type] # an overlong line is refused as well
                way = ways.get(value["type"])
            except (orjson.JSONDecodeError, KeyError, TypeError):
                pass  # for the scan to judge
            if way is not None and (is_plain or self._resume()):
                is_plain = True
                if way(value, line, offset, raw):  # type: ignore[arg-type] # it has a type: no overlong line
                    offset += len(raw) + 1
                    continue
            self._catch_up()
            is_plain = False
            record = scan.feed(line, offset, raw, block.is_provisional, value)
            if record is not None:
                if rows is not None:
                    rows.add(record, self._log_id)
                self._sketch.see(record)
            elif scan.is_stopped:
                return
            offset += (raw.length if isinstance(raw, Overlong) else len(raw)) + 1
        self._catch_up()

    def _resume(self) -> bool:
        """Go on from where the scan is; False where it does not expect plain chunks."""
        stand = self._scan.stand()
        if stand is None:
            return False
        self._seq, self._before, self._turn, self._step = stand
        return True

    def _catch_up(self) -> None:
        """Tell the scan of the lines taken."""
        if self._lag:
            self._scan.note_plain_chunks(
                self._lag, self._seq, self._before, self._chunk_type, self._telling, *self._last
            )
            line, seq = self._first
            place = (self._turn, self._step, self._seq - seq)
            self._sketch.see_chunks(line, 0, seq, *place, self._before, self._telling)
            self._lag, self._telling = 0, None

    def _follows(self, seq: Any, time: Any, turn: Any, step: Any) -> bool:
        return (
            type(seq) is type(time) is type(turn) is type(step) is int
            and seq == self._seq
            and self._before <= time <= MAX_SAFE
            and turn == self._turn
            and step == self._step
        )

    def _packed(self, row: Object, line: int, offset: int, raw: bytes) -> bool:
        """Take a packed row; False where it is not plain."""
        data, call_id, name = row.get("data"), None, None
        if tuple(row) != _PACKED_ROW or type(data) is not dict:
            return False
        kind, seq, time, _ = row.values()
        order = tuple(data)
        if kind != "tool-call-chunks" and order == _DELTAS:
            turn, step, index, dt, texts = data.values()
        elif kind == "tool-call-chunks" and order == _CALL and type(data["name"]) is str and data["id"]:
            turn, step, index, dt, call_id, name, texts = data.values()
        elif kind == "tool-call-chunks" and order == _CALL_GOES_ON and data["id"]:
            turn, step, index, dt, call_id, texts = data.values()
        else:
            return False
        if not self._follows(seq, time, turn, step) or type(index) is not int or not 0 <= index <= MAX_SAFE:
            return False
        total = plain_total(dt, texts, raw)
        if total is None or time + total > MAX_SAFE or type(call_id) not in (str, NoneType):
            return False
        last, count = time + total, len(texts)
        if self._rows is not None:
            first = time if name or texts[0] else first_token(time, dt, texts)
            self._rows.add_run(
                (
                    *(self._log_id, 0, line, offset, self._is_provisional, "packed", seq, turn, step),
                    *(PACKED_TYPES[kind], index, count, time, last, first, call_id, name, None),
                ),
                _NO_FACTS,
                dt,
                texts,
            )
        self._took(seq + count, last, "", line, offset, raw)
        return True

    def _lone(self, event: Object, line: int, offset: int, raw: bytes) -> bool:
        """Take a chunk that stands alone; False where it is not plain, or a delta."""
        data = event.get("data")
        if tuple(event) != _EVENT or type(data) is not dict or tuple(data) != _CHUNK:
            return False
        turn, step, chunk = data.values()
        _, seq, time, _ = event.values()
        if type(chunk) is not dict or not self._follows(seq, time, turn, step):
            return False
        kind, index = chunk.get("type"), chunk.get("index")
        if type(kind) is not str or not kind or kind in ROW_TYPES or may_be_deep(raw):
            return False
        if index is not None and (type(index) is not int or not 0 <= index <= MAX_SAFE):
            return False
        if self._rows is not None:
            self._rows.add_run(
                (
                    *(self._log_id, 0, line, offset, self._is_provisional, "single", seq, turn, step),
                    *(kind, index, 1, time, time, None, None, None, json_text(chunk)),
                ),
                chunk_facts(kind, chunk) if kind in ("usage", "finish") else _NO_FACTS,
                None,
                None,
            )
        self._took(seq + 1, time, kind, line, offset, raw)
        if kind in ("usage", "finish"):
            self._telling = chunk
            self._catch_up()
        return True

    def _took(self, next_seq: int, time: int, chunk_type: str, line: int, offset: int, raw: bytes) -> None:
        if not self._lag:
            self._first = (line, self._seq)
        self._seq, self._before, self._chunk_type, self._last = next_seq, time, chunk_type, (line, offset, raw)
        self._lag += 1
        if self._rows is not None:
            self._rows.held += len(raw)

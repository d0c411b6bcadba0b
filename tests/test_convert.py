"""Lines to Parquet rows and back: nothing is changed, nothing is lost, hot columns say what the payload says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logs import (
    SPARED,
    START_MS,
    TABLES,
    USAGE,
    VERSIONS,
    Session,
    Stored,
    as_zstd,
    dumps,
    event_texts,
    file_name,
    frame,
    header,
    part_files,
    part_rows,
    read,
    read_bytes,
    text,
    write,
)
from turnlake.lake import convert as convert_module
from turnlake.lake.convert import Batch, convert
from turnlake.rows import part as part_module
from turnlake.rows.tables import CHUNK_RUNS, EVENTS, FINDINGS
from turnlake.sources.discover import find_logs
from turnlake.sources.source import parse_source

MESSAGE = {"id": "m", "role": "user", "content": [], "source": {"kind": "user"}}
ANY_TEXT = st.text(st.characters(codec=None), max_size=6)
ANY_NUMBER = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
ANY_KEY = ANY_TEXT | st.sampled_from(["data", "stream"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | ANY_NUMBER | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_KEY, inner, max_size=3),
    max_leaves=8,
)


def survives(session: Session) -> Stored:
    """The session as stored, once it is known to come back as it was read."""
    stored = Stored(session.raw, file_name(session.version))
    assert stored.replayed() == event_texts(read(session))
    return stored


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_log_needs_no_line_kept(version: int) -> None:
    stored = survives(Session(version).turn().turn_with_call())
    assert all(row["raw_line"] is None for row in (*stored.events, *stored.runs))
    assert stored.findings == []


def test_the_payload_is_cut_out_of_the_line_as_written() -> None:
    session = Session(4)
    data = b'{"b":1.0,"a":1e2,"b\\u0061":"\\u00e9\\/","list":[ 1, 2 ]}'
    session.line(b'{"type":"todo/write","seq":0,"time":5,"data":' + data + b"}", 1)
    session.line(b'{"type":"todo/write","data":' + data + b',"seq":1,"time":5}', 1)
    session.line(b'{"data":' + data + b',"time":5,"seq":2,"type":"todo/write"}\r', 1)
    stored = survives(session)
    assert [row["payload"] for row in stored.events] == [data.decode()] * 3
    assert [row["raw_line"] for row in stored.events] == [None] * 3


# Lines whose payload is easily cut out wrongly.
TRICKS = {
    "data in a string": b'{"type":"todo/write","seq":0,"time":5,"data":{"x":"\\"data\\":{}"}}',
    "data in an object": b'{"type":"todo/write","seq":0,"time":5,"data":{"x":{"data":{"data":null}}}}',
    "data in an earlier member": b'{"type":"\\"data\\":","ignorable":true,"seq":0,"time":5,"data":{"a":1}}',
    "data before its own": b'{"x":{"data":{"a":2}},"type":"todo/write","seq":0,"time":5,"data":{"a":1}}',
    "data twice": b'{"type":"todo/write","seq":0,"time":5,"data":{"a":1},"data":{"b":2}}',
    "data twice, apart": b'{"type":"todo/write","data":{"a":1},"seq":0,"data":{"b":2},"time":5}',
    "data first and last": b'{"data":{"a":1},"type":"todo/write","seq":0,"time":5,"data":{"b":2}}',
    "equal data twice": b'{"data":{"a":1},"type":"todo/write","seq":0,"time":5,"data":{"a":1}}',
    "data escaped": b'{"type":"todo/write","seq":0,"time":5,"d\\u0061ta":{"a":1}}',
    "data escaped, then plain": b'{"type":"todo/write","seq":0,"time":5,"d\\u0061ta":{"a":1},"data":{"b":2}}',
    "data plain, then escaped": b'{"type":"todo/write","seq":0,"time":5,"data":{"b":2},"d\\u0061ta":{"a":1}}',
    "data escaped, and in a string": b'{"type":"todo/write","seq":0,"time":5,"d\\u0061ta":{"a":{"data":{}}}}',
    "the next member in data": b'{"type":"todo/write","data":{"seq":9,"a":[{"x":1,"seq":3}]},"seq":0,"time":5}',
    "the next member again": b'{"type":"todo/write","seq":3,"data":{"a":1},"time":5,"seq":0}',
    "time twice": b'{"type":"todo/write","seq":0,"data":{"a":1},"time":4,"time":5}',
    "time twice, with data": b'{"type":"todo/write","seq":0,"data":{"a":1},"time":4,"ignorable":true,"time":5}',
    "blanks": b' { "type" : "todo/write" , "seq" : 0 , "time" : 5 , "data" : { "a" : 1 } } ',
    "a blank behind data": b'{"type":"todo/write","seq":0,"time":5,"data": {"a":1} }',
    "a blank before the next member": b'{"type":"todo/write","seq":0,"data":{"a":1}, "time":5}',
    "the next member spelt twice": b'{"type":"todo/write","seq":0,"data":{"a":1}, "time":{"b":2} ,"time":5}',
    "a tab": b'{"type":"todo/write","seq":0,"time":5,"data":\t{"a":1}\t}',
    "null": b'{"type":"todo/write","seq":0,"time":5,"data":null}',
    "a list": b'{"type":"todo/write","seq":0,"time":5,"data":[1]}',
    "a string": b'{"type":"todo/write","seq":0,"time":5,"data":"{}"}',
    "a brace at the end": b'{"type":"todo/write","seq":0,"time":5,"data":{"a":"}"}}',
    "empty": b'{"type":"todo/write","seq":0,"time":5,"data":{}}',
    "a key twice in data": b'{"type":"todo/write","seq":0,"time":5,"data":{"a":1,"a":2}}',
    "big numbers": b'{"type":"todo/write","seq":0,"time":5,"data":{"a":12345678901234567890123,"b":1e300,"c":-0.0}}',
}  # fmt: skip


@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize("name", TRICKS)
def test_tricky_lines(name: str, version: int) -> None:
    session = Session(version).line(TRICKS[name], 1)
    stored = survives(session)
    assert len(stored.events) == 1
    assert read(session).records[0].event["data"] == orjson.loads(stored.events[0]["payload"])


@pytest.mark.parametrize(
    "words", ['"data":{}', '"stream":[', '"stream":[]', ',"seq":1', "}}", '\\"', "\u2028", "\x00", "🐟\ud83d", "é" * 99]
)
@pytest.mark.parametrize("version", VERSIONS)
def test_texts_in_every_place(words: str, version: int) -> None:
    session = Session(version).turn(words, words or "x").turn_with_call(words, words)
    session.add("todo/write", {words: words, "deep": [[{words: [words]}]]})
    session.add("session/title", {"title": words, "source": {"kind": words}})
    if version < 2:
        session.open_step()
        session.packed([words, words, "x"])
    stored = survives(session)
    for row in (*stored.events, *stored.runs):
        dumps(row).decode()  # no column holds half a surrogate pair


@given(ANY_JSON, st.sampled_from(VERSIONS))
def test_any_value_in_a_message_survives(value: Any, version: int) -> None:
    session = Session(version).open_step()
    session.add("user/message", MESSAGE | {"content": [{"type": "x", "value": value}]}, surfaceOp="append")
    session.add("todo/write", {"value": value})
    session.call(arguments=json.dumps(value))
    session.chunk({"type": "odd", "value": value}) if version < 2 else session.add(
        "assistant/attempt",
        session.place | {"stream": [{"type": "chunk", "time": 5, "chunk": {"type": "odd", "value": value}}]},
    )
    survives(session)


ODD_TYPES = st.sampled_from(
    "user/message assistant/message tool/result turn/end llm/retry request/header agent/inbox/spliced hook/result "
    "compaction/summary approval/asked tool/code-dispatch job/settled tool/call".split()
)


@given(ANY_JSON, ODD_TYPES)
def test_any_value_may_stand_anywhere(value: Any, type_: str) -> None:
    """Whatever the types of members are, a line becomes a row and comes back."""
    session = Session(4)
    for data in odd_datas(value):
        session.add(type_, data, surfaceOp="append")
    assert len(survives(session).events) == 4


def odd_datas(value: Any) -> list[Any]:
    """The data of four events with the value in every place."""
    members = "reason usage stream inserted delayMs header arguments turn step retry failure source error label".split()
    message = {"content": value, "source": value, "id": value, "role": value, "isError": value}
    return [value, {"message": value}, dict.fromkeys(members, value), {"message": message, "source": {"kind": value}}]


@given(st.sampled_from(VERSIONS), st.lists(st.integers(0, 5), max_size=5))
def test_frames_make_no_difference_to_the_rows(version: int, frames: list[int]) -> None:
    session = Session(version).turn().turn_with_call()
    raw = Stored(session.raw, file_name(version))
    packed = Stored(as_zstd(session.lines, frames), file_name(version, "zstd"))
    for table in TABLES:
        assert without_id(packed.tables[table]) == without_id(raw.tables[table])


def without_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"log_id": None} for row in rows]


@pytest.mark.parametrize("version", [0, 4])
def test_hot_columns(version: int) -> None:
    session = Session(version).turn("four", "Hello").turn_with_call('{"a":1}')
    session.add("turn/start", {"turn": 3.0})
    stored = survives(session)
    rows: dict[str, dict[str, Any]] = {}
    for row in stored.events:
        rows.setdefault(row["type"], row)
    user, message, end = rows["user/message"], rows["assistant/message"], rows["turn/end"]
    assert (user["message_id"], user["role"], user["source_kind"], user["content_chars"]) == ("u2", "user", "user", 4)
    assert (user["turn"], user["step"], user["surface_op"], user["source_ranges"]) == (None, None, "append", None)
    assert (message["turn"], message["step"], message["provider"], message["model"]) == (
        1,
        1,
        "deepseek-official",
        "deepseek-v4-pro",
    )
    assert [message[f"{kind}_tokens"] for kind in ("input", "output", "cache_read", "reasoning")] == [8, 2, None, None]
    assert (message["usage_place"], message["invalid_usage"], message["content_block_count"]) == ("message", None, 1)
    assert message["source_ranges"] == ([3, 11] if version < 2 else None)
    assert message["chunk_count"] == (None if version < 2 else 9)
    assert message["finish_kind"] == (None if version < 2 else "stop")
    assert message["first_token_ms"] == (None if version < 2 else message["time_ms"] + 1)
    assert (end["reason_kind"], end["turn"]) == ("completed", 1)
    call, result = rows["tool/call"], rows["tool/result"]
    assert (call["call_id"], call["tool_name"], call["arguments"]) == ("c1", "bash", '{"a":1}')
    assert (result["call_id"], result["is_error"], result["source_ranges"]) == ("c1", False, [call["seq"]] * 2)
    assert stored.events[-1]["turn"] == 3


def test_positions_and_times() -> None:
    session = Session(4).turn()
    stored = survives(session)
    assert [row["line"] for row in stored.events] == [2, 3, 4, 5, 6, 7]
    assert [row["time_ms"] for row in stored.events] == list(range(START_MS, START_MS + 6))
    offsets = [row["byte_offset"] for row in stored.events]
    assert offsets == [sum(len(line) + 1 for line in session.lines[:n]) for n in range(1, 7)]


@pytest.mark.parametrize(
    "usage",
    [
        {"inputTokens": -1},
        {"inputTokens": 1.5},
        {"outputTokens": "2"},
        {"inputTokens": True},
        {"cacheReadTokens": 2**53},
        {"inputTokens": []},
    ],
    ids=str,
)
def test_a_usage_with_a_bad_number_is_kept_as_text_only(usage: dict[str, Any]) -> None:
    session = Session(4).open_step()
    message = MESSAGE | {"role": "assistant"}
    session.add(
        "assistant/message",
        session.place | {"message": message, "stream": [], "usage": USAGE | usage},
        surfaceOp="append",
    )
    [row] = [row for row in survives(session).events if row["type"] == "assistant/message"]
    assert row["input_tokens"] is None and row["output_tokens"] is None and row["usage_place"] == "message"
    assert json.loads(row["invalid_usage"]) == USAGE | usage


def test_an_unknown_number_is_null_and_never_0() -> None:
    session = Session(4).open_step()
    message = MESSAGE | {"role": "assistant"}
    usage = {"inputTokens": 0, "cacheReadTokens": None}
    session.add(
        "assistant/message", session.place | {"message": message, "stream": [], "usage": usage}, surfaceOp="append"
    )
    session.add("assistant/message", session.place | {"message": message, "stream": []}, surfaceOp="append")
    metered, unmetered = survives(session).events[-2:]
    assert (metered["input_tokens"], metered["output_tokens"], metered["cache_read_tokens"]) == (0, None, None)
    assert (unmetered["input_tokens"], unmetered["usage_place"], unmetered["first_token_ms"]) == (None, None, None)


def test_chunks_stay_packed() -> None:
    session = Session(0).open_step()
    session.packed(["a", "b", ""], [2, -1])
    session.chunk({"type": "text-delta", "index": 0, "text": "c"})
    session.chunk({"type": "usage", "usage": USAGE})
    packed, single, usage = survives(session).runs
    assert (packed["form"], packed["chunk_count"], packed["seq"]) == ("packed", 3, 3)
    assert packed["payload"] == '{"turn":1,"step":1,"index":0,"dt":[2,-1],"texts":["a","b",""]}'
    assert packed["chunk_type"] == "text-delta"
    assert packed["last_time_ms"] == packed["time_ms"] + 1
    assert (single["form"], single["chunk_count"], single["seq"]) == ("single", 1, 6)
    assert single["payload"] == '{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"c"}}'
    assert usage["input_tokens"] == 8
    assert json.loads(usage["payload"])["chunk"] == {"type": "usage", "usage": USAGE}


def test_streams_are_kept_beside_the_payload() -> None:
    session = Session(4).turn()
    stored = survives(session)
    [message] = [row for row in stored.events if row["type"] == "assistant/message"]
    [data] = [json.loads(line)["data"] for line in session.lines if b'"assistant/message"' in line]
    assert message["stream"] == dumps(data["stream"]).decode()
    assert json.loads(message["payload"]) == data | {"stream": []}
    assert stored.runs == []


@pytest.mark.parametrize("place", ["message", "usage", "before", "other"])
def test_a_stream_is_not_taken_for_another(place: str) -> None:
    """Text or members that look like the stream stay where they are."""
    session = Session(4).open_step()
    stream = [{"type": "chunk", "time": 5, "chunk": {"type": "finish", "reason": {"kind": "stop"}}}]
    message = MESSAGE | {"role": "assistant"}
    data = {
        "message": session.place
        | {"message": message | {"content": [text(dumps({"stream": stream}).decode())]}, "stream": stream},
        "usage": session.place | {"message": message, "stream": stream, "usage": {"stream": stream}},
        "before": {"stream": [], "nested": {"stream": stream}} | session.place | {"message": message, "stream": stream},
        "other": session.place | {"message": message | {"stream": stream}, "stream": []},
    }[place]
    session.add("assistant/message", data, surfaceOp="append")
    survives(session)


def test_lone_surrogates_are_kept_and_shown_as_replaced() -> None:
    session = Session(4)
    session.add("session/title", {"title": "half \ud83d"})
    [row] = survives(session).events
    assert row["payload"] == '{"title":"half \\ud83d"}'
    assert row["sql_payload"] == '{"title":"half \ufffd"}'
    assert row["label"] == "half \ufffd"


def test_invalid_utf8_is_read_with_replacements() -> None:
    session = Session(4).line(b'{"type":"session/title","seq":0,"time":5,"data":{"title":"\xff\xfe"}}', 1)
    stored = survives(session)
    assert stored.events[0]["label"] == "\ufffd\ufffd"
    assert [row["code"] for row in stored.findings] == ["invalid_utf8", "INV-41"]


def test_unusual_members_keep_the_line() -> None:
    session = Session(4)
    session.add("x/new", {}, ignorable=True, favourite="blue")
    stored = Stored(session.raw)
    assert stored.events[0]["raw_line"] == session.lines[1].decode()


def test_the_row_of_a_log() -> None:
    session = Session(4, isSeeded=True, parentSession="p", origin="subagent", delegationDepth=1, agentPreset="x").turn()
    session.add("session/end-seed", {"inherited": True})
    session.add("todo/write", {}, seq=9)
    row = Stored(session.raw + b"torn").log
    expected = {
        "path": "--w--/s1/session.v4.jsonl",
        "file_name": "session.v4.jsonl",
        "container": "raw",
        "header_id": "s1",
        "generation": 4,
        "format_version": 4,
        "dialect": "real",
        "header": session.lines[0].decode(),
        "created_at_ms": START_MS,
        "cwd": "/w",
        "parent_session_id": "p",
        "origin": "subagent",
        "delegation_depth": 1,
        "agent_preset": "x",
        "is_seeded": True,
        "inherited_event_count": 6,
        "bytes": len(session.raw) + 4,
        "decoded_bytes": len(session.raw) + 4,
        "line_count": 9,
        "event_count": 8,
        "accepted_event_count": 7,
        "dropped_record_count": 1,
        "unread_line_count": 0,
        "verdict": "removable_tail",
        "verdict_reason": "seq_gap",
        "verdict_line": 9,
        "is_torn": True,
        "torn_bytes": 4,
        "is_read": True,
        "has_unknown_required_type": False,
        "first_event_ms": START_MS + 6,
        "last_event_ms": START_MS + 7,
        "clock_anomaly_count": 0,
        "is_missing": False,
        "machine": None,
    }
    assert {key: row[key] for key in expected} == expected


def test_provisional_rows_of_a_torn_frame() -> None:
    session = Session(4).turn()
    last = session.lines[-1] + b"\n"
    torn = b"\x28\xb5\x2f\xfd\x00\x68" + (len(last) << 3).to_bytes(3, "little") + last
    stored = Stored(as_zstd(session.lines[:-1]) + torn, file_name(4, "zstd"))
    assert [row["is_provisional"] for row in stored.events] == [False] * 5 + [True]
    assert (stored.log["is_torn"], stored.log["torn_bytes"], stored.log["event_count"]) == (True, len(torn), 6)


@pytest.mark.parametrize("data", [b"", header(5), header(3)], ids=["no header", "unknown version", "mismatch"])
def test_a_log_that_is_not_read_has_no_rows(data: Any) -> None:
    data = (
        data if isinstance(data, bytes) else b"".join([dumps(data), b"\n", *Session(4).turn().raw.splitlines(True)[1:]])
    )
    stored = Stored(data)
    assert (stored.events, stored.runs, stored.log["is_read"], stored.log["verdict"]) == ([], [], False, "refused")


def test_equal_logs_give_equal_bytes_however_often(tmp_path: Path) -> None:
    for version in VERSIONS:
        write(tmp_path / "root", Session(version).turn().turn_with_call().raw, file_name(version), f"s{version}")
    logs = find_logs([parse_source(str(tmp_path / "root"))]).logs
    assert converted(tmp_path / "a", logs) == converted(tmp_path / "b", logs)


def converted(folder: Path, logs: Any) -> dict[str, bytes]:
    convert(Batch("p.parquet", logs), folder)
    paths = [path for table in TABLES for path in part_files(folder, table, "p.parquet")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_row_groups_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(0).turn().turn_with_call()
    whole = Stored(session.raw, file_name(0))
    monkeypatch.setattr(part_module, "GROUP_BYTES", 300)
    grouped = Stored(session.raw, file_name(0))
    for table in TABLES:
        assert without_id(grouped.tables[table]) == without_id(whole.tables[table])


def test_an_empty_batch_gives_files_with_all_columns(tmp_path: Path) -> None:
    converted(tmp_path, ())
    for table in (EVENTS, CHUNK_RUNS, FINDINGS):
        for path in part_files(tmp_path, table.name, "p.parquet"):
            assert pq.read_schema(path).equals(table.schema())


@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone"), PermissionError(13, "Permission denied")])
def test_a_log_that_cannot_be_opened_is_unreadable_and_may_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    write(tmp_path / "root", Session(4).turn().raw)
    logs = find_logs([parse_source(str(tmp_path / "root"))]).logs

    def refuse(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(convert_module, "open_log", refuse)
    [one] = convert(Batch("p.parquet", logs), tmp_path)
    assert one.row is not None
    assert (one.row["verdict"], one.row["verdict_reason"], one.row["is_read"]) == ("refused", "unreadable", False)
    assert one.is_gone is isinstance(error, FileNotFoundError)
    [finding] = part_rows(tmp_path, "findings", "p.parquet")
    assert (finding["code"], finding["log_id"]) == ("unreadable_file", one.log_id)


def test_what_the_next_reading_replaces_has_a_part_of_its_own(tmp_path: Path) -> None:
    session = Session(4).turn().line(b"{")
    torn = frame(session.lines[-2] + b"\n", checksum=True)[:-1]
    write(tmp_path / "root", as_zstd(session.lines) + torn, file_name(4, "zstd"))
    convert(Batch("p.parquet", find_logs([parse_source(str(tmp_path / "root"))]).logs), tmp_path)
    lasting, tail = (
        {table: pq.read_table(path).to_pylist() for table, path in zip(TABLES, paths, strict=True)}
        for paths in zip(*(part_files(tmp_path, table, "p.parquet") for table in TABLES), strict=True)
    )
    assert [row["is_provisional"] for row in lasting["events"]] == [False] * 6
    assert [row["is_provisional"] for row in tail["events"]] == [True]
    assert {row["code"] for row in lasting["findings"]} - SPARED == {"unread_line"}
    assert {row["line"] for row in tail["findings"]} <= {None, 9}


def test_damage_in_the_middle_keeps_what_came_before() -> None:
    session = Session(4).turn()
    stored = Stored(as_zstd(session.lines) + b"damaged!" + frame(b"lost\n"), file_name(4, "zstd"))
    assert (stored.log["verdict"], stored.log["verdict_reason"], len(stored.events)) == ("refused", "corrupt", 6)
    assert [(row["code"], row["byte_offset"]) for row in stored.findings] == [
        ("frame_corrupt", len(as_zstd(session.lines)))
    ]
    assert read_bytes(as_zstd(session.lines) + b"damaged!", file_name(4, "zstd")).verdict.event_count == 6

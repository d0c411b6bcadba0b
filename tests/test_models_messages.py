"""The surface, its messages and what they were made from, against a fold one event at a time and the official logs."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lakes import Log, Row, opened, rows, write_raw
from official import Official
from turnlake.format.values import canonical
from turnlake.lake.convert import Batch, convert
from turnlake.lake.files import RawFiles
from turnlake.models.build import build_database
from turnlake.models.folder import sql_folder
from turnlake.models.model import read_models
from turnlake.rows.tables import LOGS, TABLES
from turnlake.rows.writer import write_rows
from turnlake.sources.discover import find_logs
from turnlake.sources.source import parse_source

MODELS = ("marts.messages", "marts.message_sources")
MAY_BE_NOTHING = ("assistant/message", "system/message", "developer/message")
SURFACE = (*MAY_BE_NOTHING, "user/message", "tool/result")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of SQL files with only what the messages need, since these tests build many lakes."""
    root = tmp_path_factory.mktemp("sql")
    with duckdb.connect() as db:
        known = {model.name: model for model in read_models(sql_folder(), db)}
    wanted, needed = list(MODELS), set()
    while wanted:
        name = wanted.pop()
        if name in known and name not in needed:
            needed.add(name)
            wanted += known[name].reads
    for name in needed:
        target = root / known[name].path.relative_to(sql_folder())
        target.parent.mkdir(exist_ok=True)
        shutil.copy(known[name].path, target)
    shutil.copytree(sql_folder() / "macros", root / "macros")
    return root


def lake(models: Path, folder: Path, *logs: Log) -> duckdb.DuckDBPyConnection:
    """The messages of hand-made logs."""
    build_database(write_raw(folder, logs), folder / "x.duckdb", threads=1, root=models)
    return opened(folder / "x.duckdb")


def converted(models: Path, folder: Path, paths: dict[str, Path]) -> duckdb.DuckDBPyConnection:
    """The messages of log files, each a session under the name given: several may hold the same session."""
    logs = {name: find_logs([parse_source(str(path))]).logs[0] for name, path in paths.items()}
    results = convert(Batch("part.parquet", tuple(logs.values())), folder)
    found = [result.row | {"session_id": name} for name, result in zip(logs, results, strict=True) if result.row]
    (folder / "logs").mkdir()
    write_rows(folder / "logs" / "part.parquet", LOGS, found)
    files = RawFiles({name: tuple(sorted(folder.rglob(f"{name}/*.parquet"))) for name in TABLES})
    build_database(files, folder / "x.duckdb", threads=2, root=models)
    return opened(folder / "x.duckdb")


def by_session(db: duckdb.DuckDBPyConnection, query: str) -> dict[str, list[Row]]:
    """The rows of a query, by their session."""
    found: dict[str, list[Row]] = {}
    for row in rows(db, query):
        found.setdefault(row["session_id"], []).append(row)
    return found


def nodes_before(transcript: Iterable[Row], seq: float) -> list[int]:
    """The surface before an event, from the columns of the transcript."""
    standing = [
        row
        for row in transcript
        if row["seq"] < seq and (row["shadowed_by_seq"] is None or row["shadowed_by_seq"] >= seq)
    ]
    return [row["seq"] for row in sorted(standing, key=lambda row: row["order_key"])]


def fold(surface: Iterable[Row]) -> Iterator[tuple[int, list[int]]]:
    """The surface before each surface event, one event at a time; what is no range of it is appended."""
    nodes: list[int] = []
    for event in surface:
        seq, first, last = event["seq"], event.get("replace_start_seq"), event.get("replace_end_seq")
        yield seq, list(nodes)
        if first in nodes and last in nodes and nodes.index(first) <= nodes.index(last):
            nodes[nodes.index(first) : nodes.index(last) + 1] = [seq]
        else:
            nodes.append(seq)
    yield 10**9, nodes


def assert_equals_the_fold(transcript: list[Row], surface: list[Row]) -> None:
    for seq, nodes in fold(surface):
        assert nodes_before(transcript, seq) == nodes, f"before {seq}"


def message(log: Log, type_: str = "user/message", *places: int, **columns: Any) -> int:
    """Adds a message; it replaces the nodes of two places where they are given."""
    op: Row = {"surface_op": "append"}
    if places:
        op = {"surface_op": "replace", "replace_start_seq": places[0], "replace_end_seq": places[1]}
    content = columns.pop("content", [{"type": "text", "text": "Hi"}])
    data = {"content": content} if type_ == "user/message" else {"message": {"content": content}}
    columns = {"payload": json.dumps(data), "content_block_count": len(content), "role": "user"} | columns
    return log.event(type_, **(op | columns))


# By hand


def test_a_compaction_stands_where_the_first_it_replaced_stood(models: Path, tmp_path: Path) -> None:
    log = Log()
    first, second, third = (message(log) for _ in range(3))
    summary = message(log, "user/message", first, second)
    # A range that falls by number: the summary of the summary and what stands behind it.
    last = message(log, "user/message", summary, third)
    added = message(log)
    db = lake(models, tmp_path, log)
    transcript = rows(db, "from marts.transcript order by seq")
    assert [row["order_key"] for row in transcript] == [first, second, third, first, first, added]
    assert [row["shadowed_by_seq"] for row in transcript] == [summary, summary, last, last, None, None]
    assert [row["is_replacement"] for row in transcript] == [False, False, False, True, True, False]
    messages = rows(db, "from marts.messages order by position")
    assert [(row["position"], row["seq"]) for row in messages] == [(0, last), (1, added)]
    assert_equals_the_fold(transcript, log.events)


@pytest.mark.parametrize(
    "places",
    [(0, 1), (2, 1), (99, 99), (3, 3), (4, 4), (0, None)],
    ids=["replaced", "reversed", "unknown", "itself", "later", "half"],
)
def test_what_is_no_range_of_the_surface_is_appended(models: Path, tmp_path: Path, places: tuple[int, int]) -> None:
    log = Log()
    message(log)
    message(log, "user/message", 0, 0)
    message(log)
    message(log, "user/message", *places)
    message(log, "user/message", 3, 3)
    transcript = rows(lake(models, tmp_path, log), "from marts.transcript order by seq")
    assert (transcript[3]["is_replacement"], transcript[3]["order_key"]) == (False, 3)
    assert transcript[4]["order_key"] == 3, "it may be replaced in its turn"
    assert nodes_before(transcript, 99) == [1, 2, 4]
    assert_equals_the_fold(transcript, log.events)


def test_an_empty_message_gives_nothing_and_stays_a_node(models: Path, tmp_path: Path) -> None:
    log = Log(format_version=4)
    for type_ in SURFACE:
        message(log, type_, content=[])
    empty = message(log, "assistant/message", content=[])
    message(log, "user/message", empty, empty)
    db = lake(models, tmp_path, log)
    found = rows(db, "from marts.messages order by position")
    assert [row["seq"] for row in found] == [3, 4, 6]
    assert [row["position"] for row in found] == [0, 1, 2]
    assert [(row["content"], row["text"], row["char_count"]) for row in found[:2]] == [("[]", "", 0)] * 2
    assert len(nodes_before(rows(db, "from marts.transcript"), 99)) == 6


def test_a_system_message_is_replaced_at_the_head(models: Path, tmp_path: Path) -> None:
    log = Log(format_version=3)
    log.event("turn/start", 1)
    log.event("step/start", 1, 1)
    head = message(log, "system/message", turn=1, step=1, role="system", content=[])
    message(log, turn=None)
    new = message(log, "system/message", head, head, turn=1, step=1, role="system")
    db = lake(models, tmp_path, log)
    found = rows(db, "from marts.messages order by position")
    assert [(row["seq"], row["role_normalised"], row["turn"], row["step"]) for row in found] == [
        (new, "system", 1, 1),
        (3, "user", 1, 1),
    ]


def test_a_pruned_result_keeps_its_turn_and_a_summary_takes_the_open_one(models: Path, tmp_path: Path) -> None:
    log = Log()
    between = message(log)
    log.event("turn/start", 1)
    claimed = message(log)
    log.event("step/start", 1, 1)
    result = message(log, "tool/result", turn=1, step=1)
    log.event("step/end", 1, 1)
    behind = message(log)
    log.event("turn/end", 1)
    pruned = message(log, "tool/result", result, result, turn=1, step=1)
    log.event("turn/start", 2)
    log.event("step/start", 2, 1)
    summary = message(log, "user/message", between, pruned)
    found = {row["seq"]: row for row in rows(lake(models, tmp_path, log), "from marts.transcript")}
    places = {seq: (found[seq]["turn"], found[seq]["step"]) for seq in found}
    assert places == {
        between: (None, None),
        claimed: (1, None),
        result: (1, 1),
        behind: (1, None),
        pruned: (1, 1),
        summary: (2, 1),
    }


def test_a_message_tells_who_wrote_it(models: Path, tmp_path: Path) -> None:
    log = Log()
    message(log, source_kind="user")
    message(log, source_kind="plugin")
    message(log)
    message(log, "assistant/message", role="assistant", source_kind="model")
    message(log, "tool/result", role="user", source_kind="tool")
    found = rows(lake(models, tmp_path, log), "from marts.messages order by position")
    assert [row["is_human"] for row in found] == [True, False, None, False, False]
    assert [row["role"] for row in found] == ["user", "user", "user", "assistant", "user"]
    assert [row["role_normalised"] for row in found] == ["user", "user", "user", "assistant", "tool"]


def test_text_is_that_of_text_blocks_and_results(models: Path, tmp_path: Path) -> None:
    log = Log()
    blocks = [{"type": "text", "text": "a\u0000🎉"}, {"type": "reasoning", "text": "hm"}, {"type": "text", "text": "b"}]
    message(log, "assistant/message", content=blocks)
    inner = [{"type": "text", "text": "c"}, {"type": "image", "attachment": {}}, {"type": "text", "text": "d"}]
    message(log, "tool/result", content=[{"type": "tool-result", "toolCallId": "x", "content": inner}])
    message(log, "tool/result", content=inner)
    message(log, content=[{"type": "image"}, 7, None])
    for payload in ('{"content":"plain"}', "null", "[]", '{"content":[{"type":"text"', None):
        message(log, payload=payload)
    message(log, payload='{"content":["\\ud83d"]}', sql_payload='{"content":["�"]}')
    found = rows(lake(models, tmp_path, log), "from marts.messages order by position")
    assert [row["text"] for row in found] == ["a\u0000🎉b", "cd", "cd", "", None, None, None, None, None, ""]
    assert [row["char_count"] for row in found] == [4, 2, 2, 0, None, None, None, None, None, 0]
    assert json.loads(found[0]["content"]) == blocks
    assert [row["content"] for row in found[4:]] == ['"plain"', None, None, None, None, '["�"]']


def test_only_what_the_harness_accepts_counts_unless_it_refuses_the_log(models: Path, tmp_path: Path) -> None:
    cut = Log("cut", verdict="removable_tail", accepted_event_count=2)
    refused = Log("refused", verdict="refused", accepted_event_count=0)
    for log in (cut, refused):
        for _ in range(3):
            message(log)
        log.back_to(1)
        message(log, message_id="again")
    db = lake(models, tmp_path, cut, refused)
    found = by_session(db, "from marts.messages order by position")
    assert [(row["seq"], row["message_id"]) for row in found["cut"]] == [(0, None), (1, None)]
    assert [(row["seq"], row["message_id"]) for row in found["refused"]] == [(0, None), (1, "again"), (2, None)]


def test_the_inherited_prefix_is_a_part_and_other_logs_and_types_are_not(models: Path, tmp_path: Path) -> None:
    fork, copy = Log(inherited_event_count=1), Log(log_id="copy", superseded_by="log-s1")
    for log in (fork, copy):
        message(log)
        message(log)
    message(fork, "system/message", is_known_type=False)
    message(fork, "note/added")
    fork.event("user/message", payload="{}")
    found = rows(lake(models, tmp_path, fork, copy), "from marts.messages order by position")
    assert [(row["seq"], row["is_inherited"]) for row in found] == [(0, True), (1, False)]


def test_sources_are_told_by_kind(models: Path, tmp_path: Path) -> None:
    log = Log()
    log.chunk("text-delta", texts=["a", "b", "c"])
    answer = message(log, "assistant/message", source_ranges=[0, 2])
    call = log.event("tool/call", 1, 1)
    result = message(log, "tool/result", source_ranges=[call, call])
    start = log.event("compaction/start")
    summary = message(log, "user/message", answer, result, source_ranges=[start, start, answer, answer, result, result])
    message(log, "assistant/message", source_ranges=[])
    message(log, source_ranges=None)
    db = lake(models, tmp_path, log)
    found = {(row["seq"], row["source_seq"]): row["kind"] for row in rows(db, "from marts.message_sources")}
    assert found == {
        (answer, 0): "chunk",
        (answer, 1): "chunk",
        (answer, 2): "chunk",
        (result, call): "call",
        (summary, start): "other",
        (summary, answer): "shadowed",
        (summary, result): "shadowed",
    }
    known = [row["sources_known"] for row in rows(db, "from marts.transcript order by seq")]
    assert known == [True, True, True, True, False], "an empty list is known, an absent one is not"


RUNS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4)), max_size=6)
# Few examples of many sessions each: building the database is what takes time, and why nothing is made smaller.
DEAR = settings(max_examples=3, phases=[Phase.explicit, Phase.reuse, Phase.generate])


@given(st.lists(RUNS, min_size=12, max_size=24))
@DEAR
def test_an_event_named_twice_is_one_source(models: Path, drawn: list[list[tuple[int, int]]]) -> None:
    logs = [Log(f"s{number:02}", verdict="refused") for number in range(len(drawn))]
    for log, runs in zip(logs, drawn, strict=True):
        message(log, seq=100, source_ranges=[bound for first, more in runs for bound in (first, first + more)])
    with tempfile.TemporaryDirectory() as folder, lake(models, Path(folder), *logs) as db:
        found = by_session(db, "from marts.message_sources order by source_seq")
    for log, runs in zip(logs, drawn, strict=True):
        named = {seq for first, more in runs for seq in range(first, first + more + 1)}
        told = found.get(str(log.facts["session_id"]), [])
        assert [row["source_seq"] for row in told] == sorted(named)


# Any history


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    """A surface event a row: appends, replacements of ranges, and some of what is no range."""
    nodes: list[int] = []
    history: list[Row] = []
    for seq in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(("append", "replace", "replace", "odd")))
        event: Row = {"seq": seq, "surface_op": "append"}
        if kind == "odd":
            places = draw(st.tuples(st.integers(0, 14), st.integers(0, 14)))
            event = {"seq": seq, "surface_op": "replace", "replace_start_seq": places[0], "replace_end_seq": places[1]}
        elif kind == "replace" and nodes:
            start = draw(st.integers(0, len(nodes) - 1))
            end = draw(st.integers(start, len(nodes) - 1))
            event |= {"surface_op": "replace", "replace_start_seq": nodes[start], "replace_end_seq": nodes[end]}
        history.append(event)
        *_, (_, nodes) = fold(history)
    return history


@given(st.lists(histories(), min_size=12, max_size=24))
@DEAR
def test_the_surface_is_that_of_the_fold_at_every_event(models: Path, written: list[list[Row]]) -> None:
    logs = [Log(f"s{number:02}") for number in range(len(written))]
    for log, history in zip(logs, written, strict=True):
        for event in history:
            log.event("user/message", role="user", **event)
    with tempfile.TemporaryDirectory() as folder, lake(models, Path(folder), *logs) as db:
        transcripts = by_session(db, "from marts.transcript")
        messages = by_session(db, "from marts.messages order by position")
    for log, history in zip(logs, written, strict=True):
        assert_equals_the_fold(transcripts.get(str(log.facts["session_id"]), []), history)
        *_, (_, nodes) = fold(history)
        assert [row["seq"] for row in messages.get(str(log.facts["session_id"]), [])] == nodes


# Logs as they lie


@pytest.fixture(scope="module")
def fixture_lake(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """The logs of tests/fixtures, each a session named for its folder."""
    root = Path(__file__).parent / "fixtures"
    paths = {path.parent.name: path for path in sorted(root.glob("*/*.jsonl*"))}
    with converted(models, tmp_path_factory.mktemp("fixtures"), paths) as db:
        yield db


def test_a_tutorial_log_gives_messages(fixture_lake: duckdb.DuckDBPyConnection) -> None:
    found = rows(fixture_lake, "from marts.messages where session_id = 'tutorial' order by position")
    assert [row["role_normalised"] for row in found][:3] == ["user", "assistant", "tool"]
    assert all(row["turn"] == 1 and row["content"] and row["message_id"] for row in found)
    assert found[0]["is_human"] and found[0]["text"]


def test_text_with_half_a_surrogate_pair_is_read(fixture_lake: duckdb.DuckDBPyConnection) -> None:
    found = rows(fixture_lake, "from marts.messages where session_id = 'odd-text'")
    assert found and all(row["content"] is not None for row in found)
    assert any("�" in row["content"] for row in found)


def test_every_log_equals_the_fold(fixture_lake: duckdb.DuckDBPyConnection) -> None:
    assert_all_equal_the_fold(fixture_lake)


def assert_all_equal_the_fold(db: duckdb.DuckDBPyConnection) -> None:
    surfaces = by_session(db, "from intermediate.surface_events order by seq")
    transcripts = by_session(db, "select session_id, seq, order_key, shadowed_by_seq from marts.transcript")
    assert surfaces.keys() == transcripts.keys() and surfaces
    for name, surface in surfaces.items():
        assert_equals_the_fold(transcripts[name], surface)


@pytest.fixture(scope="module")
def case_lake(
    models: Path, cases: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    """The cases of one log, each a session named for its case."""
    paths = {path.parent.name: path for path in sorted(cases.glob("S*/session.jsonl"))}
    with converted(models, tmp_path_factory.mktemp("cases"), paths) as db:
        yield db


def test_an_empty_message_of_the_output_limit(case_lake: duckdb.DuckDBPyConnection, cases: Path) -> None:
    expected = json.loads((cases / "S08" / "expected.json").read_text())
    found = rows(case_lake, "from marts.messages where session_id = 'S08' order by position")
    assert [row["role"] for row in found] == expected["derived_messages_roles"]


def test_a_compaction_replaces_what_the_model_sees(case_lake: duckdb.DuckDBPyConnection, cases: Path) -> None:
    expected = json.loads((cases / "S12" / "expected.json").read_text())
    found = rows(case_lake, "from marts.messages where session_id = 'S12' order by position")
    assert [row["seq"] for row in found] == expected["derived_message_seqs"]
    transcript = rows(case_lake, "from marts.transcript where session_id = 'S12' order by seq")
    assert [row["seq"] for row in transcript if row["shadowed_by_seq"]] == expected["shadowed_seqs"]
    sources = rows(case_lake, "from marts.message_sources where session_id = 'S12' order by source_seq")
    for seq, named in expected["sources_of_seq"].items():
        assert [row["source_seq"] for row in sources if row["seq"] == int(seq)] == named
    assert {row["kind"] for row in sources} == {"shadowed"}


# The official logs


def test_messages_are_the_official_ones(official: Official) -> None:
    query = (
        "select m.*, p.type, p.payload from marts.messages as m "
        "inner join staging.payloads as p using (session_id, seq) where p.branch = 0 order by position"
    )
    found = by_session(official.db, query)
    for name, answer in official.accepted.items():
        derived = found.get(name, [])
        assert [row["position"] for row in derived] == list(range(len(answer["messages"]))), name
        for row, expected in zip(derived, answer["messages"], strict=True):
            data = json.loads(row["payload"])
            assert canonical(data if row["type"] == "user/message" else data["message"]) == canonical(expected), name
            assert canonical(json.loads(row["content"])) == canonical(expected["content"]), name
            facts = (row["message_id"], row["role"], row["source_kind"])
            assert facts == (expected["id"], expected["role"], expected["source"]["kind"]), name
            assert row["text"] == text_of(expected["content"]), name
            assert row["char_count"] == len(row["text"]), name


def text_of(content: list[Row]) -> str:
    """The text of text blocks and of what stands in tool results."""
    return "".join(
        block["text"] if block["type"] == "text" else text_of(block["content"])
        for block in content
        if block["type"] in ("text", "tool-result")
    )


def test_the_surface_is_the_official_one(official: Official) -> None:
    columns = "session_id, seq, order_key, shadowed_by_seq, is_replacement"
    found = by_session(official.db, f"select {columns} from marts.transcript")
    for name, answer in official.accepted.items():
        transcript = sorted(found.get(name, []), key=lambda row: int(row["order_key"]))
        assert nodes_before(transcript, float("inf")) == answer["surface"]["nodes"], name
        replaced = {
            row["seq"]: [node["seq"] for node in transcript if node["shadowed_by_seq"] == row["seq"]]
            for row in sorted(transcript, key=lambda row: int(row["seq"]))
            if row["is_replacement"]
        }
        expected = answer["surface"]["replacements"]
        assert list(replaced.items()) == [(one["seq"], one["shadowedSeqs"]) for one in expected], name
        assert len(replaced) == answer["surface"]["replaceGeneration"], name


def test_every_official_log_equals_the_fold(official: Official) -> None:
    assert_all_equal_the_fold(official.db)


def test_official_sources_are_those_written(official: Official) -> None:
    written = {
        (name, row["seq"], seq)
        for name, surface in by_session(official.db, "from intermediate.surface_events").items()
        for row in surface
        for first, last in zip((row["source_ranges"] or [])[::2], (row["source_ranges"] or [])[1::2], strict=True)
        for seq in range(first, last + 1)
    }
    found = rows(official.db, "from marts.message_sources")
    assert {(row["session_id"], row["seq"], row["source_seq"]) for row in found} == written
    assert len(found) == len(written)
    chunks = rows(official.db, "select distinct session_id, seq from raw.chunks where form <> 'stream'")
    are_chunks = {(row["session_id"], row["seq"]) for row in chunks}
    accepted = {row["session_id"] for row in rows(official.db, "from staging.sessions where verdict <> 'refused'")}
    for row in found:
        is_chunk = (row["session_id"], row["source_seq"]) in are_chunks
        # In a damaged log the line of a chunk may be lost.
        may_be_lost = row["kind"] == "chunk" and row["session_id"] not in accepted
        assert (row["kind"] == "chunk") == is_chunk or may_be_lost, row

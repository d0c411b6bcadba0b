"""`turnlake show`: a session replayed, what the model saw of it, its log given back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from conftest import ROOT
from logs import Session, file_name, text, write
from official import Official
from turnlake.api import connect
from turnlake.cli import main
from turnlake.format.records import logical_events
from turnlake.format.values import canonical
from turnlake.inspect import session as inspected
from turnlake.inspect.causes import CAUSES
from turnlake.inspect.overview import overview
from turnlake.inspect.queries import report
from turnlake.inspect.request import request_lines
from turnlake.inspect.seen import Seen, projection_of, stored_log
from turnlake.inspect.timeline import Timeline
from turnlake.inspect.words import content_text, duration, end_words, log_place, seqs, tokens
from turnlake.messages.attempts import attempts
from turnlake.messages.log import read_log

HOSTILE = "\x1b[31mred\x07 \u202egnp.exe\u2028<b>[bold]"
Capture = pytest.CaptureFixture[str]


def compacted() -> Session:
    """Two turns, the messages of the first one replaced by a summary; a call, an approval, what was put in."""
    session = Session(4, id="s1")
    session.add("permission/preset", {"preset": "workspace-write"})
    session.turn_start()
    session.step_start()
    session.system("Be brief.")
    session.user("Please deploy.")
    source = {"kind": "plugin:memory", "plugin": "notes"}
    data = {"id": "x", "role": "user", "content": [text("It is Friday.")], "source": source}
    session.add("user/message", data, surfaceOp="append")
    session.add("request/header", {"reason": "initial", "header": {"config": {"provider": "p", "model": "m"}}})
    session.assistant("I will ask.", [("c1", "bash", '{"command":"make"}')])
    session.call("c1", arguments='{"command":"make"}')
    session.add("approval/asked", {"id": "p1", "toolName": "bash", "callId": "c1"})
    session.add("approval/decided", {"id": "p1", "outcome": "allowed-once"})
    session.result("c1", "deployed")
    session.step_end()
    session.turn_end()
    session.add("compaction/start", {"compactionId": "k1", "turn": None})
    usage = {"inputTokens": 5, "outputTokens": 1}
    shadowed = {"shadowedRange": {"start": 5, "end": 11}, "shadowedSeqs": [5, 7, 11], "shadowedTokenCount": 9}
    about = {"compactionId": "k1", "summary": [text("Deployed.")], "provider": "p", "model": "m", "usage": usage}
    session.add("compaction/summary", about | shadowed)
    session.user(
        "It was deployed.", surfaceOp={"op": "replace", "startSeq": 4, "endSeq": 11}, sourceEventSeqs=[4, 5, 7, 11]
    )
    session.add("compaction/end", {"compactionId": "k1", "turn": None})
    return session.turn("And now?", "Now we wait.")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of several formats."""
    root = tmp_path_factory.mktemp("logs")
    hostile = Session(4, id="hostile").turn(HOSTILE, HOSTILE)
    for name, session in {
        "s1": compacted(),
        "session-aa1": Session(4, id="session-aa1").turn(),
        "session-aa2": Session(0, id="session-aa2").turn_with_call(),
        "hostile": hostile,
        "torn": Session(4, id="torn").turn().line(b'{"type":"turn/start"'),
    }.items():
        raw = session.raw[:-1] if name == "torn" else session.raw
        write(root, raw, file_name(session.version), name)
    return root


@pytest.fixture(scope="module")
def lake(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("lakes") / "lake"
    assert main(["build", str(root), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    return lake


@pytest.fixture
def db(lake: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with connect(lake) as db:
        yield db


Shown = Callable[..., str]


@pytest.fixture
def shown(lake: Path, capsys: Capture) -> Shown:
    """What `turnlake show WORDS…` prints."""

    def show(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(["show", *words, "--lake", str(lake)]) == code
        return capsys.readouterr().out

    return show


def line_with(out: str, words: str) -> str:
    [line] = [line for line in out.splitlines() if words in line]
    return line


def test_turns_steps_messages_and_calls_stand_in_the_order_of_the_log(shown: Shown) -> None:
    out = shown("s1")
    order = ["turn 1  completed", "step 1", "#3 system", "#4 human", "model call 1", "tool bash", "end of turn 1"]
    order += ["compaction/start", "compaction call", "compaction done", "turn 2  completed", "Now we wait."]
    places = [out.index(words) for words in order]
    assert places == sorted(places)


def test_people_are_told_from_what_was_put_in(shown: Shown) -> None:
    out = shown("s1")
    assert "human  Please deploy." in out
    assert "injected (plugin:memory" in line_with(out, "It is Friday.")


def test_a_result_stands_beside_its_call(shown: Shown) -> None:
    out = shown("s1").splitlines()
    [place] = [number for number, line in enumerate(out) if "tool bash" in line]
    assert '{"command":"make"}  [c1]' in out[place]
    assert out[place + 1].strip().startswith("ok, ") and "waiting for approval: deployed" in out[place + 1]


def test_what_was_replaced_and_by_what_is_marked(shown: Shown, root: Path) -> None:
    out = shown("s1")
    surface = read_log(next(root.rglob("s1/*.jsonl"))).projection.surface()
    [replacement] = surface.replacements
    assert f"[takes the place of {seqs(replacement.shadowed)}]" in line_with(out, "It was deployed.")
    assert f"[replaced by #{replacement.seq}]" in line_with(out, "Please deploy.")
    assert "replaced" not in line_with(out, "Be brief.")


def test_one_turn_alone(shown: Shown) -> None:
    out = shown("s1", "--turn", "2")
    assert "turn 2" in out and "And now?" in out
    assert "Please deploy." not in out and "compaction" not in out


def test_what_the_model_saw_before_an_event(shown: Shown, root: Path) -> None:
    log = read_log(next(root.rglob("s1/*.jsonl")))
    for upto in (0, 4, 5, 12, len(log.events)):
        answer = json.loads(shown("s1", "--at", str(upto), "--json"))
        messages = [one["message"] for one in answer["messages"]]
        assert messages == json.loads(json.dumps(log.derive_messages(upto)))
        assert len({one["seq"] for one in answer["messages"]}) == len(messages)
    assert "It was deployed." in shown("s1", "--at", "22")
    assert "Please deploy." not in shown("s1", "--at", "22")


def test_messages_as_json_are_those_that_the_log_derives(shown: Shown, root: Path) -> None:
    for name in ("s1", "session-aa2", "hostile"):
        log = read_log(next((root / "--w--" / name).iterdir()))
        assert json.loads(shown(name, "--messages", "--json")) == json.loads(json.dumps(log.derive_messages()))


def test_the_messages_of_a_turn_are_those_of_its_last_request(shown: Shown, root: Path) -> None:
    log = read_log(next(root.rglob("session-aa2/*.jsonl")))
    [attempt] = attempts(log)
    answer = json.loads(shown("session-aa2", "--turn", "1", "--messages", "--json"))
    assert answer == json.loads(json.dumps(log.derive_messages(attempt.before_seq)))
    assert [message["role"] for message in answer] == ["user"]


def test_without_its_log_a_session_shows_what_the_lake_keeps(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path / "logs", compacted().raw)
    lake = ["--lake", str(tmp_path / "lake")]
    assert main(["build", str(tmp_path / "logs"), *lake, "--workers", "1", "-q"]) == 0
    wanted = json.loads(json.dumps(read_log(path).derive_messages()))
    for change in (lambda: path.write_bytes(path.read_bytes() + b"\n"), path.unlink):
        change()
        capsys.readouterr()
        assert main(["show", "s1", "--messages", "--json", *lake]) == 0
        told = capsys.readouterr()
        assert json.loads(told.out) == wanted
        assert "the messages are those of the events that the lake keeps" in told.err


def test_the_header_of_the_log_and_of_its_requests(shown: Shown) -> None:
    answer = json.loads(shown("s1", "--header", "--json"))
    assert answer["log"]["id"] == "s1"
    assert answer["request_header"]["config"] == {"provider": "p", "model": "m"}
    assert "p/m" in shown("s1", "--header")
    assert "no header recorded" in shown("s1", "--header", "--at", "0")


@pytest.mark.parametrize("name", ["s1", "session-aa2", "hostile", "torn"])
def test_raw_gives_the_log_back(shown: Shown, root: Path, name: str) -> None:
    log = read_log(next((root / "--w--" / name).iterdir()))
    out = shown(name, "--raw")
    assert out.isascii() and "\x1b" not in out and "\x7f" not in out
    back = [canonical(json.loads(line)) for line in out.splitlines()]
    assert back == [canonical(event) for event in logical_events(log.records)]


def test_raw_is_read_some_lines_at_a_time(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shown("session-aa2", "--raw")
    monkeypatch.setattr("turnlake.inspect.seen.LINES_AT_ONCE", 3)
    assert shown("session-aa2", "--raw") == whole


def test_text_of_a_log_can_not_steer_the_terminal(shown: Shown) -> None:
    for words in (["hostile"], ["hostile", "--full"], ["hostile", "--messages"]):
        out = shown(*words)
        assert "\\x1b[31mred\\x07" in out and "<b>[bold]" in out
        assert not set(out) & set("\x1b\x07\u202e\u2028")


def test_an_id_can_not_steer_the_terminal_either(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, Session(4, id="a\x1b[31m; rm b").open_step().raw)
    assert main(["show", str(path)]) == 0
    assert main(["diagnose", str(path)]) == 1
    told = capsys.readouterr()
    assert "session a\\x1b[31m; rm b" in told.out
    assert "\x1b" not in told.out + told.err


def test_calls_of_a_branch_written_again_are_told_apart(capsys: Capture) -> None:
    assert main(["show", str(ROOT / "tests" / "fixtures" / "two-writers" / "session.v4.jsonl")]) == 0
    out = capsys.readouterr().out
    assert [out.count(f"model call 1 of branch {branch}") for branch in (0, 1)] == [2, 1]


def test_long_texts_are_cut_unless_all_is_asked_for(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, Session().turn("word " * 200).raw)
    assert main(["show", str(path)]) == 0
    assert "… (1,000 characters)" in line_with(capsys.readouterr().out, "human")
    assert main(["show", str(path), "--full"]) == 0
    assert "word " * 199 in line_with(capsys.readouterr().out, "human")


def test_a_log_file_needs_no_lake(root: Path, tmp_path: Path, lake: Path, capsys: Capture) -> None:
    path = next(root.rglob("s1/*.jsonl"))
    outs = []
    for words in ([str(path), "--lake", str(tmp_path / "none")], ["s1", "--lake", str(lake)]):
        assert main(["show", *words, "--json"]) == 0
        outs.append(json.loads(capsys.readouterr().out))
    for answer in outs:
        answer["session"] = {key: value for key, value in answer["session"].items() if "log" not in key}
        for key in ("source", "path"):
            del answer["session"][key]
        answer["findings"] = []
    assert outs[0] == outs[1]
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nonsense"], "no session 'nonsense' among the 5 of the lake"),
        (["session-aa"], "begins 2 sessions: write more of the one you mean\n  session-aa1 (2026-08-25 12:00:00Z"),
        (
            ["nonsense"],
            '`turnlake sql "select session_id, last_event_at, title from marts.sessions order by 2 desc limit 10"`',
        ),
        (["session-ab1"], "did you mean session-aa1?"),
        (["s1", "--turn", "7"], "no turn 7 of its own: it has 1, 2"),
        (["s1", "--at", "99"], "there is no event 99"),
        (["s1", "--turn", "1", "--at", "2"], "exclude each other"),
        (["s1", "--raw", "--messages"], "exclude each other"),
        (["s1", "--raw", "--turn", "1"], "trace SESSION --turn N"),
        (["s1", "--at", "-1"], "--at"),
        (["/nowhere/session.jsonl"], "no file of that name"),
    ],
)
def test_what_can_not_be_shown_is_told(lake: Path, capsys: Capture, words: list[str], told: str) -> None:
    assert main(["show", *words, "--lake", str(lake)]) == 2
    assert told in capsys.readouterr().err


def test_the_beginning_of_an_id_will_do(shown: Shown) -> None:
    assert shown("session-aa1") == shown("aa1") == shown("session-aa1", "-q")
    assert "session session-aa1" in shown("aa1")


def test_a_file_that_holds_no_session_is_told(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, b'{"type":"session","version":9,"id":"s"}\n', "session.v9.jsonl")
    assert main(["show", str(path)]) == 2
    assert "unknown_version" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "--w--" / "s1")]) == 2


def test_strict_minds_what_is_not_whole(shown: Shown) -> None:
    shown("s1", "--strict")
    shown("torn", "--strict", code=1)


def test_a_narrow_terminal_gets_colours_and_nothing_is_lost(
    lake: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["show", "s1", "--lake", str(lake)]) == 0
    out = capsys.readouterr().out
    assert "\x1b[32m#4 human" in out
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["show", "s1", "--lake", str(lake)]) == 0
    plain = re.sub("\x1b\\[[012]m", "", capsys.readouterr().out)
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 30
    assert "Please deploy." in " ".join(plain.split())


@pytest.mark.parametrize(
    ("ms", "words"),
    [(None, "–"), (0, "0 ms"), (999, "999 ms"), (1500, "1.5 s"), (-5, "-5 ms"), (3_723_000, "62 min 3 s")],
)
def test_durations(ms: int | None, words: str) -> None:
    assert duration(ms) == words


def test_numbers_in_runs() -> None:
    assert seqs([3, 7, 8, 9, 12]) == "#3, #7–9, #12"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "reasoning", "text": "b"}], "a\n(reasoning) b"),
        ([{"type": "tool-call", "id": "c", "name": "n", "arguments": "{}"}], "(calls n c) {}"),
        ([{"type": "tool-result", "toolCallId": "c", "isError": True, "content": []}], "(error result of c) "),
        ([{"type": "image", "offloaded": True}], "(an image that is not sent any more)"),
        ([{"type": "image"}, 7], "(image)\n(something that is no block)"),
        (None, ""),
    ],
)
def test_content_in_words(content: Any, words: str) -> None:
    assert content_text(content) == words


def test_an_end_without_words_is_shown_as_written() -> None:
    turn = {"state": "odd", "error_code": None, "error_message": None, "reason_detail": None}
    assert end_words(turn) == "it ended as odd"
    assert end_words(turn | {"state": "aborted"}) == "it was cancelled"


def test_what_came_with_a_fork_is_marked_and_in_no_turn(tmp_path: Path, capsys: Capture) -> None:
    child = Session(4, id="child", parentSession="parent", isSeeded=True).turn("Asked there.", "Answered there.")
    child.add("session/end-seed", {"inherited": True})
    path = write(tmp_path, child.turn("Asked here.", "Answered here.").raw, session="child")
    assert main(["show", str(path)]) == 0
    out = capsys.readouterr().out
    assert "forked from parent; events #0–5 are inherited" in out
    assert line_with(out, "Asked there.").startswith("#2 human inherited")
    assert line_with(out, "Asked here.").startswith("    #9 human  ")
    assert main(["show", str(path), "--turn", "2"]) == 0
    assert "there." not in capsys.readouterr().out
    assert main(["show", str(path), "--turn", "1"]) == 2
    assert "what it inherited is shown in its parent" in capsys.readouterr().err


def test_many_findings_are_counted(tmp_path: Path, capsys: Capture) -> None:
    session = Session().turn()
    for _ in range(9):
        session.line(b"{broken")
        session.user()
    path = write(tmp_path, session.raw)
    assert main(["diagnose", str(path)]) == 1
    out = capsys.readouterr().out
    assert out.count("unread_line") + int(re.findall(r"and +(\d+) more", out)[0]) >= 9


def official_sessions(official: Official, every: int) -> Iterator[tuple[str, inspected.Session]]:
    known = {name for (name,) in official.db.execute("select session_id from marts.sessions").fetchall()}
    for name in sorted(known & official.logs.keys())[::every]:
        yield name, inspected.Session(official.db, name, (name,))


def test_official_logs_are_shown_and_given_back(official: Official) -> None:
    for name, session in official_sessions(official, 15):
        log = read_log(official.file(name))
        assert list(overview(session))
        assert len(list(Timeline(session, full=True).lines())) >= len(session.turns)
        notes: list[str] = []
        seen = Seen(projection_of(session, notes.append), None)
        assert list(request_lines(session, seen, full=False)) and not notes
        back = [canonical(event) for event in stored_log(session)]
        assert back == [canonical(event) for event in logical_events(log.records)], name


def test_requests_start_where_the_projection_says(official: Official) -> None:
    for name, session in official_sessions(official, 15):
        told = {
            row["attempt_id"].removeprefix(f"{name}/"): row["before_seq"]
            for row in report(session, "attempt_requests")
            if row["kind"] == "model"
        }
        assert told == {one.place: one.before_seq for one in attempts(read_log(official.file(name)))}, name


CONSOLE = re.compile(r"^```console\n\$ turnlake ([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_page_on_debugging_shows_what_happens(sample: Path, tmp_path: Path, capsys: Capture) -> None:
    lake = ["--lake", str(tmp_path / "lake")]
    assert main(["build", str(sample), *lake, "--workers", "1", "-q"]) == 0
    blocks = CONSOLE.findall((ROOT / "docs" / "debugging.md").read_text("utf-8"))
    assert {words.split()[0] for words, _ in blocks} == {"diagnose", "show", "trace"}
    for words, expected in blocks:
        capsys.readouterr()
        assert main([*words.split(), *lake]) in (0, 1)
        out = iter(capsys.readouterr().out.replace(f" --lake {tmp_path / 'lake'}", "").splitlines())
        # Each line in its order; between them, and where the page has …, there may be others.
        assert [line for line in expected.splitlines() if line != "…" and line not in out] == [], words


def test_the_page_on_debugging_names_every_cause() -> None:
    page = (ROOT / "docs" / "debugging.md").read_text("utf-8")
    assert [cause for cause in CAUSES if f"`{cause}`" not in page] == []


def queued(*splices: dict[str, Any]) -> Session:
    """A turn that is blocked after those splices of its inbox, the last of them in it."""
    session = Session(4, id="s1")
    for splice in splices[:-1]:
        session.add("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": []} | splice)
    session.turn_start()
    session.add("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": []} | splices[-1])
    session.turn_end("blocked")
    return session


def put(*texts: str) -> dict[str, Any]:
    content = [{"id": "m", "role": "user", "content": [text(one)], "source": {"kind": "user"}} for one in texts]
    return {"inserted": content}


@pytest.mark.parametrize(
    ("splices", "told"),
    [
        ([put("Delete all."), {"removedCount": 1}], ["human  Delete all."]),
        ([put("one", "two", "three"), {"start": 1, "removedCount": 2}], ["human  two", "human  three"]),
        ([put("one"), {"removedCount": 1, "outcome": "canceled"}, put("two"), {"removedCount": 1}], ["human  two"]),
        ([put(HOSTILE), {"removedCount": 1}], ["human  \\x1b[31mred"]),
        ([{"removedCount": 1}], ["the log does not hold what was taken"]),
        ([put("one"), {"removedCount": 1, "start": -1}], ["the log does not hold what was taken"]),
        ([{"inserted": ["no message"]}, {"removedCount": 1}], ["the log does not hold what was taken"]),
    ],
)
def test_a_blocked_turn_shows_what_was_rejected(
    tmp_path: Path, capsys: Capture, splices: list[dict[str, Any]], told: list[str]
) -> None:
    path = write(tmp_path, queued(*splices).raw)
    assert main(["show", str(path), "--turn", "1"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip().startswith("rejected")]
    assert len(lines) == len(told)
    assert all(words in line for words, line in zip(told, lines, strict=True))


def test_a_result_in_the_messages_says_of_which_call(sample: Path, tmp_path: Path, capsys: Capture) -> None:
    lake = ["--lake", str(tmp_path / "lake")]
    assert main(["build", str(sample), *lake, "--workers", "1", "-q"]) == 0
    for session in ("411c1a6b", "d206"):
        capsys.readouterr()
        assert main(["show", session, "--messages", *lake]) == 0
        results = [line for line in capsys.readouterr().out.splitlines() if re.match(r" +\d+  #\d+ tool  ", line)]
        assert results and all(re.search(r" tool  \((error )?result of call_\w+\) ", line) for line in results)


def test_a_sum_of_reasoning_says_of_how_many_calls_it_lacks() -> None:
    row = {"total_tokens": 9, "input_tokens": 1, "cache_read_tokens": 0, "cache_write_tokens": 0, "output_tokens": 8}
    silent, told = row | {"reasoning_tokens": None}, row | {"reasoning_tokens": 5}
    assert tokens(told, [told, silent]) == "1 in, 8 out (5 reasoning, not told of 1 call) tokens"
    assert tokens(told, [told]) == tokens(told) == "1 in, 8 out (5 reasoning) tokens"
    unknown = silent | {"total_tokens": None}
    assert tokens(told, [told, unknown]) == tokens(told), "a call of unknown usage is told elsewhere"


@pytest.mark.parametrize(
    ("source", "path", "machine", "place"),
    [
        ("/logs", "--a--/s.jsonl", None, "/logs/--a--/s.jsonl"),
        ("/my logs/", "a/s.jsonl", None, "'/my logs/a/s.jsonl'"),
        ("/logs/s.jsonl", "s.jsonl", None, "/logs/s.jsonl"),
        ("/b.tar", "b.tar!/a/s.jsonl", None, "'/b.tar!/a/s.jsonl'"),
        ("/logs", "b.tar!/a/s.jsonl", None, "'/logs/b.tar!/a/s.jsonl'"),
        ("laptop", "a/s.jsonl", "laptop", "a/s.jsonl (of machine laptop)"),
    ],
)
def test_the_place_of_a_log_is_one_word(source: str, path: str, machine: str | None, place: str) -> None:
    assert log_place({"source": source, "path": path, "machine": machine}) == place


def test_the_place_of_a_log_can_be_pasted(root: Path, lake: Path, capsys: Capture) -> None:
    for words in (["show", "s1"], ["trace", "s1", "--seq", "1"], ["diagnose", "s1"]):
        capsys.readouterr()
        assert main([*words, "--lake", str(lake)]) in (0, 1)
        found = re.search(r"^  log +(/[^\s,]+)", capsys.readouterr().out, re.MULTILINE)
        assert found and Path(found[1]).is_file() and Path(found[1]).is_relative_to(root), words

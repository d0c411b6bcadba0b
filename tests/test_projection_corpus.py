"""The official logs and the cases from public reports: projected as the official code projects them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import orjson
import pytest

import turnlake
from counter import count
from turnlake.format.values import canonical
from turnlake.messages.attempts import attempts
from turnlake.messages.closers import NOT_STARTED, STARTED
from turnlake.messages.log import Log, read_log

Row = dict[str, Any]
Case = tuple[Log, Row]


@pytest.fixture(scope="module")
def cases_by_name(corpus: Path) -> dict[str, Case]:
    index = [json.loads(line) for line in (corpus / "index.jsonl").read_text().splitlines()]
    return {
        case["name"]: (
            read_log(corpus / case["name"] / case["file"]),
            json.loads((corpus / case["name"] / "expected.json").read_text()),
        )
        for case in index
    }


@pytest.fixture(scope="module")
def accepted(cases_by_name: dict[str, Case]) -> dict[str, Case]:
    """The logs that their own reader accepts."""
    return {name: case for name, case in cases_by_name.items() if "rejected" not in case[1]}


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def disagreeing(cases: dict[str, Case], mine: Any, official: Any) -> list[str]:
    """The cases of which mine, a function of the log, and official, one of the answers, give different JSON."""
    return [name for name, (log, answer) in cases.items() if canonical(mine(log)) != canonical(official(answer))]


def test_messages(accepted: dict[str, Case]) -> None:
    assert len(accepted) > 400
    assert disagreeing(accepted, lambda log: log.derive_messages(), lambda answer: answer["messages"]) == []
    pure = disagreeing(
        accepted,
        lambda log: turnlake.derive_messages(log.events, version=log.version),
        lambda answer: answer["messages"],
    )
    assert pure == []


def test_both_printers_print_them(accepted: dict[str, Case]) -> None:
    for log, _ in accepted.values():
        messages = log.derive_messages()
        assert orjson.loads(orjson.dumps(messages)) == json.loads(json.dumps(messages))


def test_surfaces(accepted: dict[str, Case]) -> None:
    def mine(log: Log) -> Row:
        surface = turnlake.fold_surface(log.events, log.version)
        assert surface == log.projection.surface()
        assert surface.faults == ()
        replacements = [
            {"seq": one.seq, "start": one.start, "end": one.end, "shadowedSeqs": one.shadowed}
            for one in surface.replacements
        ]
        return {"nodes": surface.nodes, "replaceGeneration": len(replacements), "replacements": replacements}

    assert disagreeing(accepted, mine, lambda answer: answer["surface"]) == []
    assert sum(bool(answer["surface"]["replacements"]) for _, answer in accepted.values()) > 10


def test_headers_and_contexts(accepted: dict[str, Case]) -> None:
    def header_digest(log: Log) -> str | None:
        header = turnlake.fold_request_header(log.events)
        assert header == log.projection.request_header()
        return None if header is None else digest(header)

    whole = {name: case for name, case in accepted.items() if "header" in case[1]}
    assert disagreeing(accepted, header_digest, lambda answer: answer["headerSha256"]) == []
    assert disagreeing(whole, lambda log: log.projection.request_header(), lambda answer: answer["header"]) == []
    context = disagreeing(
        accepted, lambda log: turnlake.fold_request_context(log.events), lambda answer: answer["context"]
    )
    assert context == []


def test_closers_and_the_messages_after_recovery(accepted: dict[str, Case]) -> None:
    def closing(log: Log) -> Any:
        made = turnlake.closers(log.events, log.version)
        assert made == log.projection.closers()
        return made

    def recovered(log: Log) -> Any:
        return turnlake.derive_messages([*log.events, *closing(log)], version=log.version)

    assert disagreeing(accepted, closing, lambda answer: answer.get("resume", {}).get("closers", [])) == []
    open_turns = {name: case for name, case in accepted.items() if "messages" in case[1].get("resume", {})}
    assert len(open_turns) > 30
    assert disagreeing(open_turns, recovered, lambda answer: answer["resume"]["messages"]) == []


def test_a_closed_log_needs_no_closers(accepted: dict[str, Case]) -> None:
    for log, _ in accepted.values():
        made = turnlake.closers(log.events, log.version)
        assert turnlake.closers([*log.events, *made], log.version) == ()


def test_what_is_rejected_is_refused_with_a_reason(cases_by_name: dict[str, Case], accepted: dict[str, Case]) -> None:
    rejected = {name: case for name, case in cases_by_name.items() if name not in accepted}
    verdicts = {(log.verdict.verdict, log.verdict.reason is None) for log, _ in rejected.values()}
    assert len(rejected) > 40
    assert verdicts == {("refused", False)}
    # What could be read is shown all the same, and nothing of it claims to be exact.
    for log, _ in rejected.values():
        log.derive_messages()
        assert not any(turnlake.project_attempt_request(log, one).is_exact for one in attempts(log))


def test_closer_texts_are_those_of_the_format() -> None:
    digests = {
        "5655d1cb75343f7b6f034300ccd4cea6f70c07d430825b4575fa03890344bf52": STARTED,
        "613f8e88c4324029a758e388a77c9082e93d36d39ad23d5f76c5529fe7b0b42f": NOT_STARTED,
    }
    for expected, verdict in digests.items():
        text = verdict.texts["interrupted"]
        assert text is not None
        assert hashlib.sha256(text.encode()).hexdigest() == expected


def test_attempts_are_those_of_the_second_count(corpus: Path, accepted: dict[str, Case]) -> None:
    found = 0
    for name, (log, _) in accepted.items():
        file = next(path for path in (corpus / name).iterdir() if path.name.startswith("session"))
        calls = [call for call in count(file.read_bytes()).calls if call.kind == "model"]
        assert [(a.branch, a.turn, a.step, a.attempt) for a in attempts(log)] == [
            (call.first.branch, call.turn, call.step, call.number) for call in calls
        ], name
        found += len(calls)
    assert found > 700


def test_every_request_of_an_accepted_log_is_exact(accepted: dict[str, Case]) -> None:
    for name, (log, _) in accepted.items():
        for one in attempts(log):
            request = turnlake.project_attempt_request(log, one)
            events = [event for event in log.events if one.before_seq is None or event["seq"] < one.before_seq]
            assert request.is_exact is one.is_accepted, name
            if request.is_exact:
                assert request.messages == turnlake.derive_messages(events, version=log.version), name


def test_an_empty_message_costs_and_says_nothing(cases: Path) -> None:
    log = read_log(cases / "S08" / "session.jsonl")
    expected = json.loads((cases / "S08" / "expected.json").read_text())
    assert [message["role"] for message in log.derive_messages()] == expected["derived_messages_roles"]
    # Still a node, which a replacement could name.
    assert len(log.projection.surface().nodes) == len(log.derive_messages()) + 1


def test_a_dangling_turn_is_repaired(cases: Path) -> None:
    log = read_log(cases / "S09" / "session.jsonl")
    expected = json.loads((cases / "S09" / "expected.json").read_text())["repaired_view"]
    made = log.projection.closers()
    assert [event["type"] for event in made] == expected["synthetic_events"]
    results = [event["data"] for event in made if event["type"] == "tool/result"]
    codes = {data["message"]["source"]["callId"]: data["error"]["code"] for data in results}
    assert codes == expected["error_codes"]


def test_a_compaction_takes_the_place_of_what_it_sums_up(cases: Path) -> None:
    log = read_log(cases / "S12" / "session.jsonl")
    expected = json.loads((cases / "S12" / "expected.json").read_text())
    surface = log.projection.surface()
    assert list(surface.nodes) == expected["derived_message_seqs"]
    assert [list(one.shadowed) for one in surface.replacements] == [expected["shadowed_seqs"]]
    assert len(log.derive_messages()) == 2

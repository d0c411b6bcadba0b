"""Proofs: the outline of a log gives what the whole log gives."""

from __future__ import annotations

import tempfile
from hashlib import sha256
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_families import write_family
from logs import VERSIONS, Session, Stored, file_name, read, read_bytes, write
from turnlake.api import connect
from turnlake.check.database import stored_checks
from turnlake.cli import main
from turnlake.messages.attempts import attempts
from turnlake.messages.closers import closing_events
from turnlake.messages.digest import START, Chain, json_bytes, message_digest
from turnlake.messages.frozen import Frozen, Message
from turnlake.messages.log import Log, projected
from turnlake.messages.outline import CHUNK, ProofStep, outline_of
from turnlake.messages.proof import Proof, load_proof, prove
from turnlake.messages.usage import Tokens, stated, tokens_of


def outlined(log: Log) -> list[ProofStep]:
    """The outline of the log."""
    return outline_of(log.records, log.header.seed_length if log.header else None)


def proved(log: Log) -> Proof:
    """The proof of the log."""
    return prove(outlined(log), log.verdict, log.version, has_header=log.header is not None)


def chained(seqs: list[int], messages: tuple[Message, ...]) -> tuple[str, int]:
    """The chain over whole messages, link by link."""
    link = START
    for seq, message in zip(seqs, messages, strict=True):
        names = (message.get("id"), message.get("role"), message.get("source", {}).get("kind"))
        content = json_bytes(message["content"]) if "content" in message else None
        link = sha256(link + message_digest(seq, names, content)).digest()
    return link.hex()[:16], len(messages)


def shown_seqs(log: Log, upto: int | None) -> list[int]:
    """The seqs of the nodes that give a message."""
    events = {event["seq"]: event for event in log.projection.events}
    silent = ("assistant/message", "system/message", "developer/message")
    return [
        seq
        for seq in log.projection.surface(upto).nodes
        if not (events[seq]["type"] in silent and events[seq]["data"]["message"]["content"] in ([], ()))
    ]


def is_what_the_log_gives(proof: Proof, log: Log) -> bool:
    """Whether the proof says what the projection of the whole log says, at each of its places."""
    for place in proof.checkpoints:
        messages = log.derive_messages(place.before_seq)
        if (place.chain, place.message_count) != chained(shown_seqs(log, place.before_seq), messages):
            return False
    return True


@given(seed=st.integers(0, 10**6))
def test_an_outline_gives_what_the_log_gives(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for path in write_family(Path(folder), 1, seed, 5):
            log = read_bytes(path.read_bytes(), path.name)
            assert closers_of_outline(log) == log.projection.closers()
            proof = proved(log)
            assert load_proof(proof.dump()) == proof
            assert Stored(path.read_bytes(), path.name).log["proof"] == proof.dump()
            if not any(record.branch for record in log.records) and log.verdict.verdict != "refused":
                assert is_what_the_log_gives(proof, log)


def closers_of_outline(log: Log) -> tuple[Frozen, ...]:
    """What would close the log's open turn, by its outline; of chunks only those that end the log have a part in it."""
    steps = projected(outlined(log), log.verdict, has_header=log.header is not None)
    return closing_events([one for one in steps if one.kind != CHUNK or one is steps[-1]], log.version)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_drawn_sessions_agree_with_their_tables(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_family(Path(folder) / "logs", 1, seed, 5)
        lake = Path(folder) / "lake"
        assert main(["build", str(Path(folder) / "logs"), "--lake", str(lake), "--workers", "1", "-q"]) == 0
        with connect(lake) as db:
            checks = stored_checks(db)
        assert checks
        assert {check.is_equal for check in checks} == {True}


def stored_proof(data: bytes, name: str) -> Proof:
    """The proof that is stored of a log."""
    return load_proof(Stored(data, name).log["proof"])


@pytest.mark.parametrize("version", VERSIONS)
def test_each_request_has_a_checkpoint(version: int) -> None:
    session = Session(version).turn().turn_with_call().turn()
    proof = stored_proof(session.raw, file_name(version))
    assert [place.before_seq for place in proof.checkpoints] == [*(a.before_seq for a in attempts(read(session))), None]
    assert [place.message_count for place in proof.checkpoints] == [1, 3, 6, 7]
    assert (proof.used.attempt_count, proof.used.total_tokens) == (3, 30)
    assert len(proof.trail) == 8 * proof.end.message_count


def test_an_open_turn_behind_a_bad_record_has_closers(tmp_path: Path) -> None:
    session = Session(0).turn()
    session.line(b'{"type":"todo/write","seq":', 1)
    session.open_step()
    session.assistant("", [("c1", "bash", "{}")])
    session.call()
    write(tmp_path / "logs", session.raw, file_name(0))
    lake = tmp_path / "lake"
    assert main(["build", str(tmp_path / "logs"), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    with connect(lake) as db:
        [check] = stored_checks(db)
        closing = db.execute("select type from marts.synthetic_events order by seq").fetchall()
    assert closing == [("tool/result",), ("step/end",), ("turn/end",)]
    assert (check.status, check.are_closers_equal) == ("match", True)


def test_a_log_too_long_to_prove_is_not_checked_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnlake.messages.outline.MOST_STEPS", 12)
    for name, turns in (("long", 3), ("short", 1)):
        session = Session(4, id=name)
        for _ in range(turns):
            session.turn()
        write(tmp_path / "logs" / name, session.raw, file_name(4))
    lake = tmp_path / "lake"
    assert main(["build", str(tmp_path / "logs"), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    with connect(lake) as db:
        assert [(check.session_id, check.status) for check in stored_checks(db)] == [
            ("long", "not_checked"),
            ("short", "match"),
        ]
        assert "more than" in (stored_checks(db)[0].reason or "")


def test_a_bracket_without_data_closes_nothing_in_an_outline() -> None:
    session = Session(2).open_step()
    session.add("turn/end", None)
    log = read(session)
    assert closers_of_outline(log) == log.projection.closers() != ()


def test_a_rewrite_makes_only_the_links_behind_it_anew() -> None:
    chain, whole = Chain(), Chain()
    digests = [sha256(bytes([number])).digest() for number in range(6)]
    chain.put(slice(0, 0), [*digests[:4]])
    before = chain.head
    chain.put(slice(1, 3), [digests[4]])
    assert chain.head != before
    whole.put(slice(0, 0), [digests[0], digests[4], digests[3]])
    assert (chain.head, chain.trail) == (whole.head, whole.trail)
    chain.put(slice(1, 2), [None])
    whole = Chain()
    whole.put(slice(0, 0), [digests[0], digests[3]])
    assert (chain.head, chain.trail) == (whole.head, whole.trail)


def test_a_digest_tells_every_part_of_a_message() -> None:
    parts = [
        message_digest(1, ("a", "user", "user"), b"[]"),
        message_digest(2, ("a", "user", "user"), b"[]"),
        message_digest(1, ("b", "user", "user"), b"[]"),
        message_digest(1, ("a", "tool", "user"), b"[]"),
        message_digest(1, ("a", "user", None), b"[]"),
        message_digest(1, ("a", "user", "user"), b"[1]"),
        message_digest(1, ("a", "user", "user"), None),
    ]
    assert len(set(parts)) == len(parts)


def test_json_bytes_print_what_no_printer_takes() -> None:
    assert json_bytes({"b": "\ud83d", "a": 10**30}) == orjson.dumps({"b": "\ufffd", "a": 1e30})


def test_a_usage_that_is_none_is_unknown() -> None:
    assert tokens_of({"inputTokens": 3, "outputTokens": 2, "cacheReadTokens": 1}) == Tokens(3, 2, 1)
    assert tokens_of({"inputTokens": 3, "outputTokens": 2, "cacheReadTokens": 1}).total == 6
    assert tokens_of({"inputTokens": 3}) == Tokens(3)
    assert tokens_of({"inputTokens": 3}).total is None
    assert tokens_of({"inputTokens": 3, "outputTokens": -1}) == Tokens()
    assert stated({"totalTokens": 4}) is None
    assert stated({"totalTokens": -4}) is not None
    assert stated([]) is None

"""The header line: what each format version takes, what refuses a log, what is only flagged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logs import START_MS, VERSIONS, Session, codes, header, read, read_bytes
from turnlake.format.header import is_header, read_header
from turnlake.format.values import MAX_SAFE

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_header(version: int) -> None:
    read_one = read_header(header(version))
    assert (read_one.version, read_one.id, read_one.created_at_ms, read_one.cwd) == (version, "s1", START_MS, "/w")
    assert (read_one.refusal, read_one.faults, read_one.notes) == (None, (), ())
    assert not read_one.is_seeded and read_one.seed_length is None


def test_all_members() -> None:
    members = {"parentSession": "p", "origin": "subagent", "delegationDepth": 2, "agentPreset": "ptc", "isSeeded": True}
    read_one = read_header(header(4, **members))
    assert read_one.refusal is None
    assert (read_one.parent_session, read_one.origin, read_one.delegation_depth) == ("p", "subagent", 2)
    assert (read_one.agent_preset, read_one.is_seeded) == ("ptc", True)


def test_seeds_of_the_older_formats() -> None:
    read_one = read_header(header(0, seedLength=3, parentSession="p"))
    assert (read_one.refusal, read_one.seed_length, read_one.is_seeded) == (None, 3, True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "members",
    [
        {"id": ...},
        {"id": ""},
        {"id": 7},
        {"createdAt": ...},
        {"createdAt": -1},
        {"createdAt": 1.5},
        {"createdAt": "2026-08-25T12:00:00Z"},
        {"createdAt": MAX_SAFE + 1},
        {"createdAt": True},
        {"delegationDepth": ...},
        {"delegationDepth": -1},
        {"delegationDepth": None},
        {"cwd": "relative/path"},
        {"cwd": ""},
        {"cwd": None},
        {"parentSession": ""},
        {"parentSession": None},
        {"agentPreset": 1},
        {"origin": "user"},
        {"origin": None},
        {"isSeeded": "yes"},
        {"isSeeded": None},
    ],
    ids=str,
)
def test_bad_members_refuse_the_log(version: int, members: dict[str, Any]) -> None:
    read_one = read_header(header(version, **members))
    assert read_one.refusal == "bad_header"
    assert next(iter(members)) in read_one.faults[0]


@pytest.mark.parametrize(
    ("version", "members"),
    [(0, {"isSeeded": False}), (1, {"isSeeded": True}), (2, {"isSeeded": ...}), (4, {"seedLength": 0})],
    ids=str,
)
def test_each_format_has_its_own_seed(version: int, members: dict[str, Any]) -> None:
    assert read_header(header(version, **members)).refusal == "bad_header"


@pytest.mark.parametrize(
    "members", [{"createdAt": float(START_MS)}, {"version": 4.0}, {"delegationDepth": 1.0}], ids=str
)
def test_a_float_without_fraction_is_an_integer(members: dict[str, Any]) -> None:
    assert read_header(header(4, **members)).refusal is None


@pytest.mark.parametrize("cwd", ["/", "/home/会话", "C:\\Users\\dev", "c:/Users/dev", "\\\\server\\share"])
def test_absolute_paths(cwd: str) -> None:
    assert read_header(header(4, cwd=cwd)).refusal is None


@pytest.mark.parametrize("version", [..., None, "4", True, 1.5])
def test_a_version_that_is_none(version: Any) -> None:
    read_one = read_header(header(0) | {"version": version} if version is not ... else header(0, version=...))
    assert (read_one.version, read_one.refusal) == (None, "bad_header")


@pytest.mark.parametrize("version", [5, 9, -1, MAX_SAFE])
def test_an_unknown_version_is_never_read(version: int) -> None:
    read_one = read_header(header(4, version=version))
    assert (read_one.version, read_one.refusal, read_one.is_readable) == (version, "unknown_version", False)


@pytest.mark.parametrize("key", ["sandboxMode", "approvalPolicy"])
@pytest.mark.parametrize("version", VERSIONS)
def test_retired_keys_refuse_every_log(version: int, key: str) -> None:
    assert read_header(header(version, **{key: "x"})).refusal == "retired_header_key"


@pytest.mark.parametrize(("version", "refusal"), [(0, None), *((version, "bad_header") for version in VERSIONS[1:])])
def test_unknown_keys_are_flagged_and_refused_from_v1_on(version: int, refusal: str | None) -> None:
    read_one = read_header(header(version, favourite="blue"))
    assert (read_one.refusal, read_one.notes) == (refusal, ("unknown key 'favourite'",))


def test_unusable_members_are_unknown() -> None:
    read_one = read_header(header(0, id=1, createdAt=-1, cwd=["/"], parentSession={}, seedLength=-1, origin="x"))
    values = (read_one.id, read_one.created_at_ms, read_one.cwd, read_one.parent_session, read_one.seed_length)
    assert values == (None,) * 5


@pytest.mark.parametrize("value", [{"type": "turn/start"}, {}, [], None, 1, "session"])
def test_what_is_no_header(value: Any) -> None:
    assert not is_header(value)


@given(st.dictionaries(st.sampled_from([*sorted(header(4)), "seedLength", "origin", "x"]), ANY_JSON))
def test_any_header_can_be_read(members: dict[str, Any]) -> None:
    read_one = read_header({"type": "session"} | members)
    assert read_one.refusal in (None, "bad_header", "unknown_version", "retired_header_key")
    assert (read_one.refusal is None) == (not read_one.faults)


@pytest.mark.parametrize(
    ("session", "reason", "code", "events"),
    [
        (Session(4, id=""), "bad_header", "INV-01", 6),
        (Session(4, version=5), "unknown_version", "INV-01", 0),
        (Session(4, version=3), "version_mismatch", "version_mismatch", 0),
        (Session(0, approvalPolicy="ask"), "retired_header_key", "INV-01", 15),
        (Session(4, favourite="blue"), "bad_header", "unknown_header_key", 6),
    ],
    ids=["bad", "version", "mismatch", "retired", "unknown key"],
)
def test_refusals_by_the_header(session: Session, reason: str, code: str, events: int) -> None:
    """What can be read is read all the same, but for logs of another version than we know."""
    log = read(session.turn())
    assert (log.verdict.verdict, log.verdict.reason, log.verdict.line) == ("refused", reason, 1)
    assert code in codes(log)
    assert (log.verdict.event_count, len(log.events), log.verdict.accepted_event_count) == (events, events, 0)


def test_a_loose_name_contradicts_no_header() -> None:
    log = read_bytes(Session(3).turn().raw, "copy.jsonl")
    assert (log.verdict.verdict, log.verdict.dialect) == ("clean", "real")

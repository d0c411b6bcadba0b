from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlake.findings import CODES
from turnlake.lake.copies import durable_lines_of, starts_with
from turnlake.lake.sessions import LogFacts, Resolution, resolve
from turnlake.sources.discover import find_logs
from turnlake.sources.logfile import generation_of
from turnlake.sources.source import parse_source

Records = tuple[int, ...]


class Logs:
    """Logs by their records, each record standing for an event at that time."""

    def __init__(self) -> None:
        self.facts: list[LogFacts] = []
        self.records: dict[str, Records] = {}

    def add(
        self,
        place: str,
        header_id: str | None = "A",
        created: int | None = 1,
        records: Records = (1, 2),
        version: int | None = None,
        is_read: bool = True,
        is_missing: bool = False,
    ) -> str:
        """A log at source:path; returns that place, which is also its log_id."""
        source, _, path = place.partition(":")
        folder, _, name = path.rpartition("/")
        generation = generation_of(name)
        fact = LogFacts(
            log_id=place,
            source=source,
            path=path,
            folder=folder,
            generation=generation,
            header_id=header_id,
            created_at_ms=created,
            format_version=generation if version is None else version,
            record_count=len(records) if is_read else 0,
            event_count=len(records) if is_read else 0,
            last_event_ms=max(records, default=None) if is_read else None,
            is_read=is_read,
            container="zstd" if name.endswith(".zstd") else "raw",
            is_missing=is_missing,
        )
        self.facts.append(fact)
        self.records[place] = records
        return place

    def same_start(self, longer: str, shorter: str) -> bool:
        return self.records[longer][: len(self.records[shorter])] == self.records[shorter]

    def resolve(self) -> Resolution:
        return resolve(self.facts, self.same_start)

    def outcome(self) -> dict[str, tuple[str, str | None, str | None]]:
        resolved = self.resolve().by_log_id
        return {place: (log.session_id, log.superseded_by, log.superseded_why) for place, log in resolved.items()}

    def codes(self) -> list[tuple[str, str]]:
        return [(log_id, finding.code) for log_id, finding in self.resolve().findings]


@pytest.fixture
def logs() -> Logs:
    return Logs()


def suffix(value: object) -> str:
    return hashlib.sha256(str(value).encode()).hexdigest()[:8]


def test_the_highest_generation_of_a_folder_counts(logs: Logs) -> None:
    old = logs.add("home:p/A/session.jsonl")
    nine = logs.add("home:p/A/session.v9.jsonl")
    ten = logs.add("home:p/A/session.v10.jsonl.zstd", records=(5,))
    assert logs.outcome() == {
        old: ("A", ten, "generation"),
        nine: ("A", ten, "generation"),
        ten: ("A", None, None),
    }


def test_an_unreadable_generation_is_no_reason_to_fall_back(logs: Logs) -> None:
    old = logs.add("home:p/A/session.jsonl")
    new = logs.add("home:p/A/session.v5.jsonl", header_id=None, created=None, is_read=False)
    backup = logs.add("backup:p/A/session.jsonl")
    assert logs.outcome() == {
        old: ("A", new, "generation"),
        new: ("A", None, None),
        backup: ("A", new, "generation"),
    }


def test_a_higher_generation_elsewhere_counts(logs: Logs) -> None:
    old = logs.add("backup:p/A/session.jsonl", records=(1, 2, 3))
    middle = logs.add("home:p/A/session.v1.jsonl")
    new = logs.add("home:p/A/session.v3.jsonl", records=(9,))
    assert logs.outcome()[old] == ("A", new, "generation")
    assert logs.outcome()[middle] == ("A", new, "generation")


def test_a_loose_name_is_compared_by_the_version_in_its_header(logs: Logs) -> None:
    loose = logs.add("home:old/saved.jsonl", version=1)
    new = logs.add("home:p/A/session.v2.jsonl", records=(9,))
    assert logs.outcome() == {loose: ("A", new, "generation"), new: ("A", None, None)}


def test_the_copy_that_goes_on_counts(logs: Logs) -> None:
    short = logs.add("a:p/A/session.jsonl", records=(1, 2))
    long = logs.add("b:p/A/session.jsonl", records=(1, 2, 2))
    assert logs.outcome() == {short: ("A", long, "copy"), long: ("A", None, None)}
    assert logs.codes() == []


def test_what_goes_on_counts_also_when_its_facts_do_not_tell(logs: Logs) -> None:
    cut = logs.add("a:p/A/session.jsonl", records=(5, 1))
    whole = logs.add("b:p/A/session.jsonl", records=(5, 1))
    # A record without an event, as damage leaves them.
    logs.records[whole] += (-1,)
    assert logs.outcome()[cut] == ("A", whole, "copy")


def test_of_equal_copies_the_smaller_place_counts_and_one_that_is_still_there_before(logs: Logs) -> None:
    gone = logs.add("a:p/A/session.jsonl", is_missing=True)
    first = logs.add("b:p/A/session.jsonl")
    second = logs.add("c:p/A/session.jsonl")
    assert logs.outcome() == {gone: ("A", first, "copy"), first: ("A", None, None), second: ("A", first, "copy")}


def test_of_diverged_copies_the_one_with_the_latest_event_counts(logs: Logs) -> None:
    early = logs.add("a:p/A/session.jsonl", records=(1, 2, 3, 3, 3))
    late = logs.add("b:p/A/session.jsonl", records=(1, 9))
    prefix = logs.add("c:p/A/session.jsonl", records=(1,))
    assert logs.outcome() == {
        early: ("A", late, "diverged_copy"),
        late: ("A", None, None),
        prefix: ("A", late, "copy"),
    }
    assert logs.codes() == [(early, "diverged_copy")]


def test_ties_of_diverged_copies(logs: Logs) -> None:
    few = logs.add("a:p/A/session.jsonl", records=(1, 9))
    more = logs.add("c:p/A/session.jsonl", records=(2, 3, 9))
    other = logs.add("b:p/A/session.jsonl", records=(2, 4, 9))
    assert logs.outcome()[few][1] == logs.outcome()[more][1] == other


def test_a_readable_copy_counts_before_an_unread_one(logs: Logs) -> None:
    unread = logs.add("a:p/A/session.v3.jsonl", is_read=False, records=(1, 2, 3))
    readable = logs.add("b:p/A/session.v3.jsonl", records=(1, 2))
    assert logs.outcome()[unread] == ("A", readable, "diverged_copy")


def test_one_folder_with_a_log_stored_twice(logs: Logs) -> None:
    raw = logs.add("home:p/A/session.jsonl", header_id=None)
    packed = logs.add("home:p/A/session.jsonl.zstd", header_id=None)
    assert logs.outcome() == {raw: ("A", packed, "copy"), packed: ("A", None, None)}


def test_one_id_with_two_creation_times_is_two_sessions(logs: Logs) -> None:
    late = logs.add("a:p/A/session.jsonl", created=7)
    early = logs.add("b:p/A/session.jsonl", created=5)
    copy = logs.add("c:p/A/session.jsonl", created=7)
    assert logs.outcome() == {
        late: (f"A~{suffix(7)}", None, None),
        early: ("A", None, None),
        copy: (f"A~{suffix(7)}", late, "copy"),
    }
    assert logs.codes() == [(late, "duplicate_session_id")]


def test_logs_without_a_header_are_named_by_their_place(logs: Logs) -> None:
    assert logs.add("home:p/session-1/session.v2.jsonl", header_id=None)
    assert logs.add("home:flat/talk.jsonl.zstd", header_id=None)
    assert logs.add("/logs/session-2:session.jsonl", header_id=None)
    assert logs.add("/logs/session-3/session.jsonl:session.jsonl", header_id=None)
    assert logs.add("home:dsh-session-4.zip!/session.jsonl", header_id=None)
    ids = {resolved.session_id for resolved in logs.resolve().by_log_id.values()}
    assert ids == {"session-1", "talk", "session-2", "session-3", "dsh-session-4.zip"}


def test_places_with_one_name_are_told_apart_by_time_and_then_by_path(logs: Logs) -> None:
    with_header = logs.add("z:p/talk/session.jsonl", header_id="talk", created=9)
    by_time = logs.add("a:one/talk.jsonl", header_id=None, created=1)
    by_path = logs.add("a:two/talk.jsonl", header_id=None, created=1)
    assert {place: outcome[0] for place, outcome in logs.outcome().items()} == {
        with_header: "talk",
        by_time: f"talk~{suffix(1)}",
        by_path: f"talk~{suffix(chr(0).join(('a', 'two/talk.jsonl')))}",
    }


def test_a_suffixed_id_never_meets_one_that_a_header_states(logs: Logs) -> None:
    logs.add("a:p/A/session.jsonl", created=1)
    hostile = logs.add("b:p/x/session.jsonl", header_id=f"A~{suffix(2)}", created=3)
    renamed = logs.add("c:p/A/session.jsonl", created=2)
    outcome = logs.outcome()
    assert outcome[hostile][0] == f"A~{suffix(2)}"
    assert outcome[renamed][0] not in ("A", f"A~{suffix(2)}")


def test_finding_codes_are_documented() -> None:
    assert {"diverged_copy", "duplicate_session_id"} <= CODES.keys()


@st.composite
def some_logs(draw: st.DrawFn) -> Logs:
    logs = Logs()
    names = ["session.jsonl", "session.jsonl.zstd", "session.v1.jsonl", "session.v2.jsonl", "loose.jsonl"]
    places = draw(
        st.lists(
            st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from(names)), max_size=8, unique=True
        )
    )
    for source, folder, name in places:
        header_id = draw(st.sampled_from(["x", "x", "y", f"x~{suffix(2)}", None]))
        logs.add(
            f"{source}:{folder}/{name}",
            header_id=header_id,
            created=draw(st.sampled_from([1, 2, None])),
            records=tuple(draw(st.lists(st.integers(1, 2), max_size=3))),
            version=draw(st.sampled_from([None, 1])) if name.startswith("loose") else None,
            is_read=draw(st.booleans()),
        )
    return logs


@settings(max_examples=120)
@given(some_logs(), st.randoms(use_true_random=False))
def test_the_order_of_logs_never_matters(logs: Logs, random: object) -> None:
    expected = logs.resolve()
    random.shuffle(logs.facts)  # type: ignore[attr-defined]
    assert logs.resolve() == expected
    assert list(logs.resolve().by_log_id) == list(expected.by_log_id)


@settings(max_examples=120)
@given(some_logs())
def test_every_log_counts_once_or_says_what_counts_instead(logs: Logs) -> None:
    resolved = logs.resolve().by_log_id
    facts = {log.log_id: log for log in logs.facts}
    assert resolved.keys() == facts.keys()
    final = {log_id for log_id, log in resolved.items() if log.superseded_by is None}
    counted = {log_id for log_id in final if facts[log_id].is_read}
    superseded = {log_id for log_id, log in resolved.items() if log.superseded_by is not None}
    assert len(facts) == len(counted) + len(superseded) + len(final - counted)
    assert max(Counter(resolved[log_id].session_id for log_id in final).values(), default=1) == 1
    for log_id in superseded:
        winner = resolved[log_id].superseded_by
        assert winner in final
        assert resolved[log_id].session_id == resolved[winner].session_id
        assert (resolved[log_id].superseded_why is None) is False
    for one, other in itertools.combinations(sorted(final), 2):
        if facts[one].header_id is not None and facts[one].header_id == facts[other].header_id:
            assert facts[one].created_at_ms != facts[other].created_at_ms


@settings(max_examples=120)
@given(some_logs())
def test_no_counted_log_is_the_beginning_of_a_readable_copy(logs: Logs) -> None:
    facts = {log.log_id: log for log in logs.facts}
    for log_id, log in logs.resolve().by_log_id.items():
        if log.superseded_by is None or log.superseded_why == "generation" or not facts[log_id].is_read:
            continue
        assert facts[log.superseded_by].is_read
        assert logs.same_start(log.superseded_by, log_id) == (log.superseded_why == "copy")
        if log.superseded_why == "diverged_copy":
            assert not logs.same_start(log_id, log.superseded_by)


def lines(*texts: bytes) -> Iterator[bytes]:
    return iter(texts)


def test_starts_with() -> None:
    assert starts_with(lines(b"1", b"2"), lines())
    assert starts_with(lines(b"1", b"2"), lines(b"1"))
    assert starts_with(lines(b"1", b"2"), lines(b"1", b"2"))
    assert not starts_with(lines(b"1"), lines(b"1", b"2"))
    assert not starts_with(lines(b"1", b"2"), lines(b"2"))
    assert not starts_with(lines(), lines(b""))


def zstd_frames(*frames: bytes) -> bytes:
    return b"".join(zstandard.ZstdCompressor(write_checksum=True).compress(frame) for frame in frames)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda frames: zstd_frames(*frames), True),
        (lambda frames: zstd_frames(frames[0].replace(b"0", b"1"), *frames[1:]), True),
        (lambda frames: zstd_frames(*frames[:2]), True),
        (lambda frames: zstd_frames(*frames)[:-3], True),
        (lambda frames: zstd_frames(frames[0], b"other\n"), False),
        (lambda frames: zstd_frames(*frames, b"more\n"), False),
    ],
    ids=["the same", "an older header", "shorter", "torn", "another", "longer"],
)
def test_a_raw_log_and_its_compressed_copy(
    tmp_path: Path, change: Callable[[list[bytes]], bytes], expected: bool
) -> None:
    frames = [b"header 0\n", b"one\ntwo\n", b"three\n"]
    (tmp_path / "session.jsonl").write_bytes(b"".join(frames) + b"torn")
    (tmp_path / "session.jsonl.zstd").write_bytes(change(frames))
    raw, packed = find_logs([parse_source(str(tmp_path))]).logs
    assert starts_with(durable_lines_of(raw), durable_lines_of(packed)) is expected

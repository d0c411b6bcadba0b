"""What is fuzzed: a target is where its input comes from, and a check that raises where a property does not hold."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import zstandard
from hypothesis import strategies as st

from fuzz.mutants import DAMAGE, JSON, LOGS, RAW_FILES, ZIP_FILES, ZSTD_FILES, spoilt
from logs import Stored, as_raw, codes, event_texts, file_name, read_bytes, write
from test_check_proof import closers_of_outline, is_what_the_log_gives, proved
from turnlake.api import connect
from turnlake.cli import main
from turnlake.errors import UsageError
from turnlake.findings import CODES
from turnlake.messages.attempts import attempts, project_attempt_request
from turnlake.messages.proof import load_proof
from turnlake.prices.files import read_cards, read_holidays
from turnlake.prices.litellm import read_price_map
from turnlake.sources.archive import list_entries, open_entry
from turnlake.sources.frames import PIECE_BYTES, FrameError, read_pieces
from turnlake.sources.lines import LineReader, Overlong, read_lines

PRICES = Path(__file__).resolve().parents[2] / "data" / "prices"


class Target(NamedTuple):
    """Inputs and what holds for each."""

    inputs: st.SearchStrategy[Any]
    check: Callable[[Any], None]


def check_frames(data: bytes) -> None:
    """Pieces are bounded, in order, and without damage they are what the library makes of the whole."""
    pieces = []
    try:
        for piece in read_pieces(io.BytesIO(data)):
            assert len(piece.data) <= PIECE_BYTES
            assert not pieces or (pieces[-1].frame, pieces[-1].end) <= (piece.frame, piece.end)
            pieces.append(piece)
    except FrameError as error:
        assert 0 <= error.offset <= len(data)
        return
    whole = b"".join(piece.data for piece in pieces if not piece.is_torn)
    torn = next((piece.frame_offset for piece in pieces if piece.is_torn), len(data))
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data[:torn]), read_across_frames=True)
    assert reader.read() == whole


def check_lines(case: tuple[bytes, str, int]) -> None:
    """Lines and the torn end are all there is, each where it says, none longer than allowed."""
    data, container, limit = case
    reader = LineReader(io.BytesIO(data), container, limit)
    offset = 0
    for number, line in enumerate(read_lines(reader), 1):
        assert (line.number, line.offset) == (number, offset)
        if isinstance(line.data, Overlong):
            assert line.data.length > limit
            offset += line.data.length + 1
        else:
            assert len(line.data) <= limit and b"\n" not in line.data
            assert container == "zstd" or data[offset : offset + len(line.data)] == line.data
            offset += len(line.data) + 1
    assert container == "zstd" or offset + reader.torn_bytes == len(data)
    assert reader.mark.decoded <= reader.decoded_bytes and reader.mark.offset <= len(data)


def check_rows(log: tuple[int, list[bytes]]) -> None:
    """Every line is the header, rows or a finding, and rows give back the events that were read."""
    version, lines = log
    name, data = file_name(version), as_raw(lines)
    direct, stored = read_bytes(data, name), Stored(data, name)
    assert codes(direct) <= CODES.keys()
    assert stored.replayed() == event_texts(direct)
    found = {row["line"] for row in (*stored.events, *stored.runs)} | stored.unread_lines
    assert found >= set(range(2, len(lines) + 1)) or not stored.log or not stored.log["is_read"]


def check_files(data: bytes) -> None:
    """Any file gives a verdict, and rows that come back."""
    for name in ("session.v4.jsonl", "session.jsonl", "session.v3.jsonl.zstd", "loose.jsonl"):
        log = read_bytes(data, name)
        assert log.verdict.verdict in ("clean", "removable_tail", "refused")
        assert codes(log) <= CODES.keys()


def check_projection(log: tuple[int, list[bytes]]) -> None:
    """Messages, surfaces, requests, closers and the proof come of any log; a prefix never needs what follows."""
    version, lines = log
    found = read_bytes(as_raw(lines), file_name(version))
    messages = found.derive_messages()
    json.dumps(messages)
    for upto in (0, 3, 10**9):
        assert len(found.derive_messages(upto=upto)) <= len(found.events)
    assert found.derive_messages(upto=10**9) == messages
    json.dumps([found.projection.request_header(), found.projection.request_context(), found.projection.closers()])
    for attempt in attempts(found):
        project_attempt_request(found, attempt)
    assert closers_of_outline(found) == found.projection.closers()
    proof = proved(found)
    assert load_proof(proof.dump()) == proof
    if not any(record.branch for record in found.records) and found.verdict.verdict != "refused":
        assert is_what_the_log_gives(proof, found)


def check_build(logs: list[tuple[int, list[bytes]]]) -> None:
    """A build works whatever the logs hold, all its checks hold, and its tables say what the logs do."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        for number, (version, lines) in enumerate(logs):
            write(Path(folder) / "root", as_raw(lines), file_name(version), f"s{number}")
        words = ["build", str(Path(folder) / "root"), "--lake", str(lake), "--workers", "1", "-q", "--debug"]
        code = main(words)
        with connect(lake) as db:
            wrong = db.execute("from marts.projection_checks where status = 'mismatch'").fetchall()
            assert (code, wrong) == (0, [])


def check_prices(data: bytes) -> None:
    """A price file gives cards, a calendar days, a price map rows, or they say what is wrong with them."""
    for read in (
        lambda: read_cards(Path("p.csv"), data, "override"),
        lambda: read_holidays(Path("calendar-x.csv"), data),
    ):
        try:
            read()
        except UsageError as error:
            assert ".csv" in str(error)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "map.json"
        path.write_bytes(data)
        try:
            read_price_map(path, datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1))
        except UsageError as error:
            assert "map.json" in str(error)


def check_archive(data: bytes) -> None:
    """An archive lists what it holds or what is wrong; its entries can be read or raise OSError alone."""
    listing = list_entries(io.BytesIO(data))
    assert {finding.code for _, finding in listing.findings} <= CODES.keys()
    for entry in listing.entries:
        assert ".." not in entry.name.split("/")
        try:
            with open_entry(io.BytesIO(data), entry.name) as file:
                assert len(file.read()) <= entry.size
        except OSError:
            pass  # it says so


def _price_files() -> st.SearchStrategy[bytes]:
    files = [path.read_bytes() for path in sorted(PRICES.glob("*.csv"))]
    entry = {
        "litellm_provider": "deepseek",
        "mode": "chat",
        "input_cost_per_token": 1e-7,
        "output_cost_per_token": 1e-6,
    }
    maps = st.dictionaries(st.sampled_from(("a", "deepseek/b")), st.dictionaries(st.sampled_from(sorted(entry)), JSON))
    told = maps.map(
        lambda odd: json.dumps({"m": entry} | {name: entry | value for name, value in odd.items()}).encode()
    )
    return st.builds(spoilt, st.sampled_from(files), DAMAGE) | told


TARGETS: dict[str, Target] = {
    "frames": Target(ZSTD_FILES, check_frames),
    "lines": Target(
        st.tuples(RAW_FILES, st.just("raw"), st.integers(1, 400))
        | st.tuples(ZSTD_FILES, st.just("zstd"), st.integers(1, 400)),
        check_lines,
    ),
    "rows": Target(LOGS, check_rows),
    "files": Target(RAW_FILES | ZSTD_FILES, check_files),
    "projection": Target(LOGS, check_projection),
    "build": Target(st.lists(LOGS, min_size=12, max_size=12), check_build),
    "prices": Target(_price_files(), check_prices),
    "archive": Target(ZIP_FILES, check_archive),
}

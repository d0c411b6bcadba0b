"""An object that names a member twice: SQL and the log's readers take the same one of them, the last."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from logs import VERSIONS, Session, Stored, dumps, file_name, write
from turnlake.api import connect
from turnlake.check.database import stored_checks
from turnlake.cli import main

# What stands in front of the member that counts.
DECOYS = ("null", "[]", '"x"', "{}", "7", '"\\u0022"')


def doubled(value: Any, rng: Random, share: float) -> str:
    """The value as JSON text in which a share of the members stand twice, the first time with another value."""
    if isinstance(value, list):
        return f"[{','.join(doubled(item, rng, share) for item in value)}]"
    if not isinstance(value, dict):
        return dumps(value).decode()
    members = []
    for name, item in value.items():
        told = dumps(name).decode()
        written = rng.choice((told, f'"\\u{ord(name[0]):04x}{told[2:]}'))
        if rng.random() < share:
            members.append(f"{written}:{rng.choice(DECOYS)}")
        members.append(f"{told}:{doubled(item, rng, share)}")
    return f"{{{','.join(members)}}}"


def with_doubles(session: Session, rng: Random, share: float) -> bytes:
    """The log with members twice in the data of its events."""
    lines = []
    for line in session.lines:
        event = json.loads(line)
        if "data" not in event or "stream" in event["data"]:
            lines.append(line)
            continue
        data = doubled(event["data"], rng, share)
        lines.append(dumps(event | {"data": 0}).replace(b'"data":0', b'"data":' + data.encode(), 1))
    return b"".join(line + b"\n" for line in lines)


def transcript(lake: Path) -> list[tuple[Any, ...]]:
    """All of the transcript."""
    with connect(lake) as db:
        return db.execute("from marts.transcript order by session_id, seq").fetchall()


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), version=st.sampled_from(VERSIONS), share=st.sampled_from((0.05, 0.3)))
def test_tables_say_what_the_log_gives(seed: int, version: int, share: float) -> None:
    session = Session(version).turn_with_call(words='a "quoted" word').turn().turn("more", "\x1b[1m words")
    raw = with_doubles(session, Random(seed), share)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("plain", session.raw), ("doubled", raw), ("grown", raw[: raw.index(b"more")])):
            logs, lake = str(Path(folder) / name), str(Path(folder) / "lakes" / name)
            write(Path(logs), data[: data.rindex(b"\n") + 1], file_name(version))
            assert main(["build", logs, "--lake", lake, "--workers", "1", "-q"]) == 0
        write(Path(logs), raw, file_name(version))
        assert main(["build", logs, "--lake", lake, "--workers", "1", "-q"]) == 0
        told = {name: transcript(Path(folder) / "lakes" / name) for name in ("plain", "doubled", "grown")}
        assert told["doubled"] == told["plain"]
        assert told["grown"] == told["plain"]
        with connect(lake) as db:
            assert [check.is_equal for check in stored_checks(db)] == [True]


def test_only_where_a_member_stands_twice_the_payload_is_kept_anew() -> None:
    line = b'{"type":"user/message","seq":0,"time":1,"data":%s,"surfaceOp":"append"}'
    told = b'"role":"user","content":[{"type":"text","text":"say \\"so\\""}]'
    written = {
        b'{"id":"u",%s}' % told: None,
        b'{ "id" : "u", %s }' % told: None,
        b'{"content":[],"id":"u",%s}' % told: b'{%s,"id":"u","role":"user"}' % told.split(b",", 1)[1],
        b'{"id":"\\u0075","id":"\\u0022",%s}' % told: b'{"id":"\\"",%s}' % told,
    }
    for data, expected in written.items():
        raw = Session(4).raw + line % data + b"\n"
        [row] = Stored(raw, file_name(4)).tables["events"]
        assert row["payload"] == data.decode()
        assert row["sql_payload"] == (None if expected is None else expected.decode())

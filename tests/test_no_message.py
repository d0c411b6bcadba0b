"""Events that should own a message and own none: only logs that the harness refuses hold such."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logs import Session, file_name, read_bytes, write
from turnlake.api import connect
from turnlake.cli import main

Event = dict[str, Any]


def without_data(event: Event) -> None:
    del event["data"]


def without_message(event: Event) -> None:
    event["data"].pop("message", None)
    if event["type"] == "user/message":
        event["data"] = {"source": {"kind": "user"}}


def of_another_kind(event: Event) -> None:
    message = {"id": 5, "role": None, "content": "text"}
    event["data"] = message if event["type"] == "user/message" else event["data"] | {"message": message}


def with_a_text_for_data(event: Event) -> None:
    event["data"] = "text"


KINDS = ("user/message", "assistant/message", "tool/result")
SPOILS = (without_data, without_message, of_another_kind, with_a_text_for_data)


def spoilt(version: int, name: str, kind: str, spoil: Callable[[Event], None]) -> tuple[bytes, int]:
    """A log with such an event, and how many messages it would give without the damage."""
    lines = [json.loads(line) for line in Session(version, id=name).turn_with_call().turn().lines]
    whole = len(read_bytes(as_bytes(lines), file_name(version)).derive_messages())
    spoil(next(line for line in lines if line["type"] == kind))
    return as_bytes(lines), whole


@pytest.mark.parametrize("version", range(5))
def test_an_event_without_a_message_gives_none_to_the_model(tmp_path: Path, version: int) -> None:
    expected = {}
    for number, (kind, spoil) in enumerate(itertools.product(KINDS, SPOILS)):
        name = f"s{number}"
        data, whole = spoilt(version, name, kind, spoil)
        write(tmp_path / "logs", data, file_name(version), name)
        log = read_bytes(data, file_name(version))
        expected[name] = (True, len(log.derive_messages()), len(log.derive_messages()))
        if log.verdict.verdict == "refused" and log.verdict.dialect == "real":
            assert len(log.derive_messages()) == whole - 1
    assert main(["build", str(tmp_path / "logs"), "--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]) == 0
    query = "select session_id, is_equal, log_message_count, table_message_count from marts.projection_checks"
    with connect(tmp_path / "lake") as db:
        assert {name: tuple(told) for name, *told in db.execute(query).fetchall()} == expected


def as_bytes(lines: list[Event]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

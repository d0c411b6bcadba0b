"""What a state remembers of its log files: written and read again, also as an earlier version wrote it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from turnlake.lake.manifest import Known, Manifest, dump_manifest, read_manifest
from turnlake.sources.lines import Mark

FILES = {
    "b" * 16: Known(
        "/logs", 10, 20, ("part-00000.parquet", "part-00003.parquet"), True, Mark(8, 80, 2), "head", "tail"
    ),
    "a" * 16: Known("laptop", 1, 2, ("part-00001.parquet",)),
    "c" * 16: Known("laptop", 3, 4, is_log=False),
}


def stored(manifest: Manifest) -> Any:
    """The manifest as a state holds it."""
    return orjson.loads(dump_manifest(manifest))


@pytest.mark.parametrize("logs", [{}, FILES])
def test_a_manifest_is_read_as_it_was_written(logs: dict[str, Known]) -> None:
    manifest = Manifest(
        logs=logs,
        missing=frozenset("a"),
        to_reread=frozenset("bc"),
        left_out="digest",
        same_start={("a", "b"): True},
        lost={"d": "laptop: gone.jsonl"},
        max_line=7,
        refused_count=2,
        is_partial=True,
    )
    assert read_manifest(stored(manifest)) == manifest


def test_equal_manifests_are_written_alike() -> None:
    backwards = dict(reversed(FILES.items()))
    assert dump_manifest(Manifest(logs=FILES)) == dump_manifest(Manifest(logs=backwards))


def test_of_format_1_every_log_is_known_and_has_its_parts() -> None:
    lists = {log_id: [*known[:5], None, "head", "tail"] for log_id, known in FILES.items()}
    logs = read_manifest({**stored(Manifest()), "logs": lists}).logs
    assert logs == {log_id: known._replace(mark=None, head="", tail="") for log_id, known in FILES.items()}

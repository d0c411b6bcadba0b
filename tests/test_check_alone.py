"""Official logs of every group of docs/check.md, each built and checked in a lake of its own, as a user does it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from turnlake.api import connect
from turnlake.cli import main

# By case: status and reason of its check, None where the lake holds no session.
CASES = {
    "acp-cancel-tool-calls": ("match", None),
    "run4-unicode": ("match", None),
    "acp-error-finish.zst-torn": ("match", None),
    "edit-garbage-tail-line": ("match", None),
    "edit-seq-gap-tail": ("match", None),
    "run4-parallel.zst-bad-checksum": ("not_exact", "corrupt"),
    "edit-message-without-id": ("not_exact", "invalid_payload"),
    "edit-extra-envelope-key": ("not_exact", "invalid_event"),
    "edit4-missing-isseeded": ("not_exact", "bad_header"),
    "edit4-unknown-required": ("not_exact", "unknown_type"),
    "edit-header-delta": ("not_exact", "unsupported_legacy"),
    "edit4-replace-reversed": ("not_exact", "invariant"),
    "edit-header-retired-policy": ("not_exact", "retired_header_key"),
    "edit4-header-system": ("not_exact", "retired_syntax"),
    "edit-header-not-session": ("not_exact", "no_header"),
    "edit4-version-5": None,
    "edit4-named-as-v0": None,
    "edit-empty-file": None,
}


@pytest.mark.parametrize("case", CASES)
def test_a_log_alone(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    [log] = (corpus / case).glob("session*")
    folder = tmp_path / "root" / "--p--" / case
    folder.mkdir(parents=True)
    shutil.copy(log, folder)
    lake = ["--lake", str(tmp_path / "lake"), "--workers", "1", "-q"]
    assert main(["build", str(tmp_path / "root"), *lake]) == 0
    assert main(["check", "--json", *lake]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["sessions_with_errors"], told["logs_not_read_again"]) == (0, {})
    with connect(tmp_path / "lake") as db:
        assert db.execute("select count(*) from raw.logs").fetchall() == [(1,)]
        checks = db.execute("select status, reason, proved_by from marts.projection_checks").fetchall()
    expected = CASES[case]
    assert checks == ([] if expected is None else [(*expected, "check")])

"""The model of docs/security.md as a whole: what a hostile log can make any command do, and who can read a lake."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from pathlib import Path

import pytest

from conftest import Run
from logs import Session, write
from turnlake.api import connect
from turnlake.cli import COMMANDS

ATTACK = (
    "'; drop table marts.turns; --\"<script>alert(1)</script>\x1b]0;owned\x07\x1b[31m\x00../../../tmp/x"
    "$(touch pwned)`id`|%s{0}\u202e"
)
FOLDER = "'; drop table x; --<script>alert(1)<\\script>\x1b[31m$(touch pwned)"


def attacking() -> bytes:
    """A session with the attack in every string a log may choose freely."""
    session = Session(4, id=ATTACK, cwd=f"/w/{ATTACK}", agentPreset=ATTACK, forkedFrom=ATTACK)
    session.open_step()
    session.add("request/header", {"model": ATTACK, "provider": ATTACK, "system": ATTACK, "tools": [{"name": ATTACK}]})
    session.assistant(ATTACK, [(ATTACK, ATTACK, json.dumps({"path": ATTACK}))])
    session.call(ATTACK, ATTACK, ATTACK)
    session.result(ATTACK, ATTACK)
    source = {"kind": "model", "provider": ATTACK, "model": ATTACK}
    message = {"id": ATTACK, "role": "assistant", "content": [{"type": "text", "text": ATTACK}], "source": source}
    usage = {"inputTokens": 7, "outputTokens": 1}
    session.add(
        "assistant/message", session.place | {"message": message, "stream": [], "usage": usage}, surfaceOp="append"
    )
    session.add("session/title", {"title": ATTACK})
    session.add(f"x/{ATTACK}", {ATTACK: ATTACK}, ignorable=True)
    session.step_end()
    session.turn_end("error", message=ATTACK, code=ATTACK, error={"message": ATTACK, "code": ATTACK})
    return session.line(ATTACK.encode()).raw


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a root of attacking logs, in a folder and a ZIP of such names."""
    folder = tmp_path_factory.mktemp("attacked")
    write(folder / "root", attacking(), session=FOLDER, project=FOLDER)
    write(folder / "root", Session(4, id="../../../../etc/passwd").turn().raw, session="climber")
    with zipfile.ZipFile(folder / "root" / "dsh-session-x.zip", "w") as archive:
        for name in ("../../escaped/session.v4.jsonl", "/abs/session.v4.jsonl", "session.v4.jsonl"):
            archive.writestr(name, attacking())
    (folder / "outside").mkdir()
    (folder / "outside" / "session.v4.jsonl").write_bytes(Session(4, id="secret").turn().raw)
    (folder / "root" / "--link--").symlink_to(folder / "outside")
    return folder


def tree(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.lstat().st_mtime_ns for path in folder.rglob("*")}


COMMAND_LINES = {
    "build": ["build", "{root}"],
    "doctor": ["doctor", "{root}"],
    "model": ["model"],
    "check": ["check"],
    "alerts": ["alerts"],
    "report": ["report", "--by", "model"],
    "report as a page": ["report", "--format", "html"],
    "report as Markdown": ["report", "--by", "tool", "--format", "markdown"],
    "report as CSV": ["report", "--by", "session", "--format", "csv"],
    "report as JSON": ["report", "--by", "project", "--format", "json"],
    "show": ["show", "{id}"],
    "show messages": ["show", "{id}", "--messages"],
    "trace": ["trace", "{id}", "--seq", "4"],
    "diagnose": ["diagnose", "{id}"],
    "diagnose all": ["diagnose"],
    "sql": ["sql", "from marts.sessions"],
    "sql, the script": ["sql"],
    "export": ["export", "{cwd}/copy"],
}


def test_no_command_does_what_a_log_says(attacked: Path, turnlake: Run, tmp_path: Path) -> None:
    """None fails, sends control characters, or writes elsewhere; pages hold no markup of a log's."""
    before = tree(attacked / "root")
    lake = tmp_path / "lake"
    for name, words in COMMAND_LINES.items():
        if words[0] not in COMMANDS:
            continue
        given = [word.format(root=attacked / "root", id="'; drop", cwd=tmp_path) for word in words]
        done = turnlake(*given, "--lake", str(lake))
        assert done.returncode in (0, 1), (name, done.stderr)
        said = done.stdout + done.stderr
        assert not {"\x1b", "\x07", "\x00", "\u202e"} & set(said) or name == "sql, the script", name
        if name == "report as a page":
            assert "<script" not in done.stdout
    assert tree(attacked / "root") == before
    assert {path.name for path in tmp_path.iterdir()} <= {"lake", "copy", ".config"}
    assert not (attacked / "escaped").exists() and not Path("/abs").exists()
    with connect(lake) as db:
        ids = {session_id for (session_id,) in db.execute("select session_id from marts.sessions").fetchall()}
        assert "secret" not in ids and "../../../../etc/passwd" in ids
        codes = {code for (code,) in db.execute("select distinct code from raw.findings").fetchall()}
        assert "symlink_outside" in codes and "ignored_file" in codes


def test_a_lake_is_private_whatever_the_umask(tmp_path: Path, turnlake: Run) -> None:
    write(tmp_path / "root", Session(4).turn().raw)
    old = os.umask(0)
    try:
        for _ in range(2):
            assert turnlake("build", str(tmp_path / "root"), "--lake", str(tmp_path / "lake"), "-q").returncode == 0
            write(tmp_path / "root", Session(4).turn().turn().raw)
    finally:
        os.umask(old)
    open_to_others = [
        path
        for path in (tmp_path / "lake", *(tmp_path / "lake").rglob("*"))
        if stat.S_IMODE(path.lstat().st_mode) & 0o077
    ]
    assert open_to_others == []

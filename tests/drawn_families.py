"""Families of drawn sessions, as log files below a sessions root."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drawn import Drawn


def write_family(root: Path, number: int, seed: int, turns: int) -> list[Path]:
    """The logs of a session and perhaps of its fork and its subagent; each turn has a seed of its own."""
    rng = Random(f"session {seed}")
    version = rng.choice((0, 0, 1, 2, 3, 4, 4))
    drawn, logs = Drawn(rng, version, f"s{number}"), []
    for turn in range(turns):
        before = (drawn.seq, drawn.turn)
        drawn.rng = Random(f"turn {seed} {turn}")
        drawn.play()
        if drawn.chance(0.06):
            _split(drawn, *before)
    kind = Random(f"child {seed}").choice((None, None, "fork", "subagent"))
    if kind and not drawn.is_split:
        logs.append(_child(drawn, kind))
    return [_write(root, log) for log in (drawn, *logs)]


def _split(drawn: Drawn, seq: int, turn: int) -> None:
    """A second writer goes on from before the last turn, and gets further than the first."""
    written = drawn.seq
    drawn.go_back(seq, turn)
    while drawn.seq <= written:
        drawn.play()


def _child(parent: Drawn, kind: str) -> Drawn:
    """A session that begins with a copy of its parent, or one that works for it."""
    lineage = {"parentSession": parent.header["id"], "cwd": parent.header["cwd"]}
    is_copy = kind == "fork"
    lineage |= {} if is_copy else {"origin": "subagent", "delegationDepth": 1}
    if is_copy:
        lineage |= {"seedLength": parent.seq} if parent.version < 2 else {"isSeeded": True}
    child = Drawn(
        Random(f"{kind} of {parent.header['id']}"), parent.version, f"{parent.header['id']}-{kind}", **lineage
    )
    if is_copy:
        child.lines, child.seq, child.turn, child.time = list(parent.lines), parent.seq, parent.turn, parent.time
        child.surface = list(parent.surface)
    child.event("session/end-seed", {"inherited": True} if is_copy and parent.version >= 2 else {})
    child.own = 0
    child.play()
    return child


def _write(root: Path, drawn: Drawn) -> Path:
    name = f"session.v{drawn.version}.jsonl" if drawn.version else "session.jsonl"
    path = root / "--w--" / drawn.header["id"] / name
    path.parent.mkdir(parents=True)
    path.write_bytes(drawn.stored())
    return path

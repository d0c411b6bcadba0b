"""Which sessions one state of the lake may tell differently than another, and in which files their rows lie."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnlake.lake.files import TAIL_PART, Part, RawFiles
from turnlake.lake.manifest import manifest_of
from turnlake.models.text import path_list, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from turnlake.lake.state import State

# Of the sessions there are, so many may differ; where more do, everything is built anew.
MOST_RENEWED = 0.25
# The tables whose rows belong to the parts that the manifest names for a log.
IN_PARTS = ("events", "chunk_runs")


@dataclass(frozen=True)
class Change:
    """`sessions` are those that may differ, be it that they are new or gone, `log_ids` the logs that hold them now.

    `files` are those of the later state that hold rows of these logs, and rows of others too.
    """

    sessions: frozenset[str]
    log_ids: frozenset[str]
    files: RawFiles


def change_between(before: State, after: State, db: DuckDBPyConnection) -> Change | None:
    """What changed from one state to the other, told by rows and files alone; None where it is too much.

    A log's rows are in its parts, in the tail, and one in `logs`. Where none of these differ, nothing does, whatever
    was read in between.
    """
    old, new = manifest_of(before), manifest_of(after)
    if old.parser_version != new.parser_version:
        return None
    changed = _logs_in_other_parts(before, after)
    if len(changed) > MOST_RENEWED * len(new.logs):
        return None
    changed |= _logs_with_other_rows(db, before, after)
    sessions = _sessions(db, changed, (before, after))
    if len(sessions) > MOST_RENEWED * len(new.logs):
        return None
    log_ids = _logs_of(db, sessions, after)
    return Change(sessions, log_ids, files_of(after, log_ids))


def _logs_in_other_parts(before: State, after: State) -> set[str]:
    """Logs that are in one of the two only, or whose parts are not the same files."""
    contents_before, contents = _contents(before.parts()), _contents(after.parts())
    logs_before, logs = manifest_of(before).logs, manifest_of(after).logs
    parts = contents_before.keys() | contents.keys()
    others = {part for part in parts if contents_before.get(part) != contents.get(part)}
    found = set(logs_before.keys() ^ logs.keys())
    return found | {
        log_id
        for log_id in logs_before.keys() & logs.keys()
        if logs_before[log_id].parts != logs[log_id].parts or not others.isdisjoint(logs[log_id].parts)
    }


def _contents(files: Iterable[Part]) -> dict[str, list[tuple[str, str]]]:
    """Table and digest of the files that make up a part, by its name."""
    contents: dict[str, list[tuple[str, str]]] = {}
    for file in sorted(files):
        if file.table in IN_PARTS:
            contents.setdefault(file.name, []).append((file.table, file.sha256))
    return contents


def _logs_with_other_rows(db: DuckDBPyConnection, before: State, after: State) -> set[str]:
    """Logs whose own row, or whose rows in the tail, differ in any column. No two rows of a log are the same.

    A proof is long and follows from what else is compared.
    """
    pairs = [(before.part_files("logs"), after.part_files("logs"))]
    pairs += [((before.path / table / TAIL_PART,), (after.path / table / TAIL_PART,)) for table in IN_PARTS]
    found: set[str] = set()
    for pair in pairs:
        both = " union all ".join(
            f"select columns(lambda c: c <> 'proof') from read_parquet({path_list(path.absolute() for path in paths)})"
            for paths in pair
        )
        in_one_only = f"from ({both}) group by all having count(*) = 1"
        found |= {log_id for (log_id,) in db.execute(f"select distinct log_id from ({in_one_only})").fetchall()}
    return found


def _sessions(db: DuckDBPyConnection, log_ids: Iterable[str], states: Iterable[State]) -> frozenset[str]:
    """The sessions that these logs hold in one of the states."""
    logs = path_list(path for state in states for path in state.part_files("logs"))
    query = f"select distinct session_id from read_parquet({logs}) where log_id in (select unnest($1))"
    found = db.execute(query, [sorted(log_ids)]).fetchall()
    return frozenset(session_id for (session_id,) in found if session_id is not None)


def _logs_of(db: DuckDBPyConnection, sessions: Iterable[str], state: State) -> frozenset[str]:
    """The logs of a state that hold these sessions."""
    logs = path_list(state.part_files("logs"))
    query = f"select log_id from read_parquet({logs}) where session_id in (select unnest($1))"
    return frozenset(log_id for (log_id,) in db.execute(query, [sorted(sessions)]).fetchall())


def parts_of(state: State, log_ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The names of the parts of a state that hold rows of each of these logs, but for their tails."""
    logs = manifest_of(state).logs
    return {log_id: logs[log_id].parts for log_id in log_ids}


def files_of(state: State, log_ids: Iterable[str]) -> RawFiles:
    """The files of a state that hold rows of these logs, and rows of others too."""
    parts = {TAIL_PART}.union(*parts_of(state, log_ids).values())
    files = state.raw_files()
    few = {table: tuple(path for path in files.tables[table] if path.name in parts) for table in IN_PARTS}
    return RawFiles({**files.tables, **few}, files.loads)


def of_these(column: str, values: Iterable[str]) -> str:
    """A condition that names its values, so that readers of files can skip what can't hold."""
    names = ", ".join(map(quoted, sorted(values)))
    return f"{column} in ({names})" if names else "false"

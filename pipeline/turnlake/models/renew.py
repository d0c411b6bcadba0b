"""A database that was built from another state -> one of this state, where few sessions differ.

Models whose rows depend on one session alone are made for the sessions that differ, in memory, and take the place of
the rows those have in the file; all other models are made whole from what is stored then.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from turnlake.models.build import (
    TARGET,
    BuildResult,
    Limits,
    connected,
    in_use,
    make,
    row_counts,
    run,
    use_whole,
)
from turnlake.models.changes import change_between, of_these
from turnlake.models.checks import promises, run_checks, run_checks_of_few, sql_tests
from turnlake.models.comments import COLUMNS_DOC
from turnlake.models.folder import sql_folder
from turnlake.models.lanes import lane_count, make_in_order, side_by_side
from turnlake.models.model import LAYERS, read_models
from turnlake.models.raw import raw_views, stored_file, stored_files
from turnlake.models.script import creation, schemas
from turnlake.models.text import path_list

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from turnlake.lake.files import RawFiles
    from turnlake.lake.state import State
    from turnlake.models.changes import Change
    from turnlake.models.model import Model

# The database in memory that holds the sessions that differ, as if there were no others.
RENEWED = "renewed"
RENEWED_PATH = ",".join(f"{database}.{schema}" for database in (RENEWED, TARGET) for schema in ("main", "raw", *LAYERS))


def renew_database(
    database: Path,
    before: State,
    state: State,
    target: Path,
    *,
    memory: str | None = None,
    threads: int | None = None,
    root: Path | None = None,
) -> BuildResult | None:
    """Makes the database file `target` of a state from that of the state before; None where too much differs.

    `database` was built by the same models with the same prices; it is copied. Raises ModelError as `build_database`.
    """
    root = root or sql_folder()
    with connected(target, Limits(memory, threads).for_files_of(database.stat().st_size)) as db:
        change = change_between(before, state, db)
        if change is None:
            return None
        shutil.copyfile(database, target)
        with in_use(target, db):
            return _renew(db, target, state.raw_files(), change, root)


def _renew(db: DuckDBPyConnection, target: Path, files: RawFiles, change: Change, root: Path) -> BuildResult:
    models = read_models(root, db)
    run(db, stored_files(files))
    db.execute(f"attach ':memory:' as {RENEWED}")
    for statement in (*schemas(RENEWED), *_restricted(change), *raw_views(RENEWED)):
        db.execute(statement)
    differs = of_these("session_id", change.sessions)
    read_whole = {name for model in models if not model.is_by_session for name in model.reads}
    with side_by_side(db, lane_count(db, target.stat().st_size)) as lanes:
        make_in_order(lanes, models, lambda lane, model: _make(lane, model, differs, read_whole))
        by_session = promises(model for model in models if model.is_by_session)
        others = promises(model for model in models if not model.is_by_session)
        count = run_checks_of_few(by_session, lanes, _use_renewed)
        count += run_checks((*others, *sql_tests(root)), lanes, use_whole)
    use_whole(db)
    return BuildResult(row_counts(db, models), count, change.sessions)


def _restricted(change: Change) -> Iterator[str]:
    """The statements that let the raw views of RENEWED read the rows of the sessions that differ alone."""
    is_one_of_these = of_these("log_id", change.log_ids)
    for table, paths in change.files.tables.items():
        query = f"from read_parquet({path_list(paths)}) where {is_one_of_these}"
        yield stored_file(table, query, RENEWED)
    yield stored_file("loads", f"from {TARGET}.main.stored_loads()", RENEWED)


def _make(db: DuckDBPyConnection, model: Model, differs: str, read_whole: Collection[str]) -> None:
    """Makes one model where those behind it look it up."""
    if model.is_by_session:
        _use_renewed(db)
        make(db, model.path, *_renewal(model, differs))
    if model.stored_as == "cached view" and model.name in read_whole:
        use_whole(db)
        make(db, model.path, creation(model, "table", "memory"))
    elif model.stored_as == "table" and not model.is_by_session and model.name != COLUMNS_DOC:
        use_whole(db)
        # The table stays, and with it its comments.
        make(db, model.path, f"delete from {TARGET}.{model.name}", f"insert into {TARGET}.{model.name}\n{model.query}")


def _use_renewed(db: DuckDBPyConnection) -> None:
    db.execute(f"set search_path = '{RENEWED_PATH}'")


def _renewal(model: Model, differs: str) -> Iterator[str]:
    yield creation(model, "view" if model.stored_as == "view" else "table", RENEWED)
    if model.stored_as == "table":
        yield f"delete from {TARGET}.{model.name} where {differs}"
        yield f"insert into {TARGET}.{model.name} from {RENEWED}.{model.name}"

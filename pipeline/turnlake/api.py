"""The published database for Python: a read-only connection, and its tables as Polars frames."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from turnlake.errors import LakeError, QueryError

if TYPE_CHECKING:
    import duckdb
    import polars as pl

DATABASE = "turnlake.duckdb"
LAKE = Path("data", "lake")
MOVED = "was built where the lake is no more, as it was moved or copied"
# What DuckDB says of files outside the folders it may read, and of such as are not there.
_FILES_ARE_ELSEWHERE = ("disabled by configuration", "No files found", "No such file")


def connect(lake: str | os.PathLike[str] | None = None) -> duckdb.DuckDBPyConnection:
    """A connection that reads the lake and nothing else: schemas raw, staging, intermediate, marts.

    It holds the state published when it was made, whole, also while later builds publish theirs: what asks several
    questions gets answers that agree. `turnlake.connect` is the one that follows. Raises LakeError where there is no
    database to read.
    """
    import duckdb

    from turnlake.models.text import path_list

    folder = lake_folder(lake)
    db = duckdb.connect()
    try:
        attach(db, folder)
        db.execute("use turnlake")
        db.execute("set TimeZone = 'UTC'")
        db.execute(f"set allowed_directories = {path_list(sorted({folder, folder.resolve()}))}")
        db.execute("set enable_external_access = false")
        db.execute("set lock_configuration = true")
        # Its views name the Parquet files by their paths of then.
        db.execute("select 1 from raw.logs limit 1").fetchall()
    except duckdb.Error as error:
        db.close()
        raise unread(folder, error) from error
    return db


def unread(folder: Path, error: Exception) -> LakeError:
    """The error for a published database that DuckDB can't read, in words that tell what to do."""
    database, reason = folder / DATABASE, str(error).partition("\n")[0]
    if "Permission denied" in reason:
        return LakeError(f"{database} can't be read: permission denied. Let the user who built it give access to it.")
    if any(words in reason for words in _FILES_ARE_ELSEWHERE):
        return LakeError(f"{database} {MOVED}: run `turnlake model --lake {folder}`")
    return LakeError(f"{database} can't be read ({reason}): run `turnlake model --lake {folder}`")


def attach(db: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Puts the database of a lake beside those of the connection, as `turnlake`. Raises duckdb.Error."""
    from turnlake.models.text import quoted

    # DuckDB keeps one instance a path: opened as itself, the file replaced by a later build would never be seen.
    db.execute(f"attach {quoted(str(folder / DATABASE))} as turnlake (read_only)")


def frame(name: str, *, lake: str | os.PathLike[str] | None = None) -> pl.DataFrame:
    """The table or view `name` of schema marts, whole, as published last.

    Raises QueryError for an unknown name, LakeError as connect.
    """
    from turnlake.models.text import identifier

    with connect(lake) as db:
        known = [row[0] for row in db.execute(MARTS).fetchall()]
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise QueryError(f"there is no table marts.{name}: {hint}")
        table: pl.DataFrame = db.sql(f"from marts.{identifier(name)}").pl()
        return table


MARTS = "select table_name from information_schema.tables where table_schema = 'marts' order by table_name"


def lake_folder(lake: str | os.PathLike[str] | None = None) -> Path:
    """The lake's folder, absolute: `$TURNLAKE_LAKE`, else the nearest `data/lake`, unless it is given.

    Raises LakeError where it holds no database, or one of a newer turnlake.
    """
    folder = Path(lake or os.environ.get("TURNLAKE_LAKE") or _nearest()).expanduser().absolute()
    if not folder.is_dir():
        raise LakeError(f"there is no lake at {folder}: run `turnlake build --lake {folder}`, or name another folder")
    _check_format(folder)
    if not (folder / DATABASE).is_file():
        raise LakeError(f"{folder} holds no {DATABASE}: run `turnlake build --lake {folder}`")
    return folder


def stamp(folder: Path) -> tuple[int, ...]:
    """What tells the database in place from those before it. Raises LakeError where there is none any more."""
    try:
        found = (folder / DATABASE).stat()
    except FileNotFoundError as error:
        raise LakeError(f"{folder} holds no {DATABASE} any more: run `turnlake build --lake {folder}`") from error
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _nearest() -> Path:
    """`data/lake` of the working directory, else of the nearest folder above it: notebooks run in their own folder."""
    here = Path.cwd()
    return next((lake for folder in (here, *here.parents) if (lake := folder / LAKE).is_dir()), here / LAKE)


def _check_format(folder: Path) -> None:
    from turnlake.lake.state import Lake

    Lake(folder).check_format()

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


def connect(lake: str | os.PathLike[str] = "data/lake") -> duckdb.DuckDBPyConnection:
    """A connection that reads the lake and nothing else: schemas raw, staging, intermediate, marts.

    It holds the state published when it was made, whole, also while later builds publish theirs. Raises LakeError
    where there is no database to read.
    """
    import duckdb

    from turnlake.models.text import path_list, quoted

    folder = _folder(lake)
    db = duckdb.connect()
    try:
        # DuckDB keeps one instance a path: opened as itself, the file replaced by a later build would never be seen.
        db.execute(f"attach {quoted(str(folder / DATABASE))} as turnlake (read_only)")
        db.execute("use turnlake")
        db.execute("set TimeZone = 'UTC'")
        db.execute(f"set allowed_directories = {path_list(sorted({folder, folder.resolve()}))}")
        db.execute("set enable_external_access = false")
        db.execute("set lock_configuration = true")
        # Its views name the Parquet files by their paths of then.
        db.execute("select 1 from raw.logs limit 1").fetchall()
    except duckdb.Error as error:
        db.close()
        reason = str(error).splitlines()[0]
        raise LakeError(
            f"{folder / DATABASE} can't be read ({reason}). If the lake was moved, "
            f"run `turnlake model --lake {folder}`."
        ) from error
    return db


def frame(name: str, *, lake: str | os.PathLike[str] = "data/lake") -> pl.DataFrame:
    """The table or view `name` of schema marts, whole. Raises QueryError for an unknown name, LakeError as connect."""
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


def _folder(lake: str | os.PathLike[str]) -> Path:
    """The lake's folder, absolute. Raises LakeError where it holds no database, or one of a newer turnlake."""
    folder = Path(lake).expanduser().absolute()
    if not folder.is_dir():
        raise LakeError(f"there is no lake at {folder}: run `turnlake build --lake {folder}`, or name another folder")
    _check_format(folder)
    if not (folder / DATABASE).is_file():
        raise LakeError(f"{folder} holds no {DATABASE}: run `turnlake build --lake {folder}`")
    return folder


def _check_format(folder: Path) -> None:
    from turnlake.parquet.state import Lake

    Lake(folder).check_format()

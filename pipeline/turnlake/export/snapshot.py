"""One published state of a lake to read at leisure: its database and the raw files that this was built from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from turnlake.api import connect
from turnlake.errors import LakeError
from turnlake.lake.pointers import Published
from turnlake.lake.state import Lake, State
from turnlake.models.build import DEFAULT_MEMORY
from turnlake.models.folder import sql_folder
from turnlake.models.model import read_models
from turnlake.models.text import identifier, quoted

# Rows that come from the database at once; a message may be long.
_ROWS_AT_ONCE = 256
_COLUMNS = """
select column_name from duckdb_columns()
where database_name = 'turnlake' and schema_name = ? and table_name = ? order by column_index
"""
_TABLES = "select table_name from information_schema.tables where table_schema = 'marts' order by table_name"


@dataclass(frozen=True)
class Snapshot:
    """An open database, and the state whose files it reads. Builds that publish meanwhile change neither."""

    db: duckdb.DuckDBPyConnection
    state: State
    currency: str

    def marts(self) -> dict[str, list[str]]:
        """The columns of each mart, by its name without the schema."""
        names = [name for (name,) in self.db.execute(_TABLES).fetchall()]
        return {name: [column for (column,) in self.db.execute(_COLUMNS, ["marts", name]).fetchall()] for name in names}

    def rows(self, mart: str, columns: list[str], key: list[str]) -> Iterator[pa.Table]:
        """The rows of a mart in order of its key, in pieces of a fixed number of rows."""
        chosen, order = (", ".join(map(identifier, names)) for names in (columns, key))
        query = f"select {chosen} from marts.{identifier(mart)} order by {order or 'all'}"
        reader = self.db.sql(query).to_arrow_reader(_ROWS_AT_ONCE)
        rest = reader.schema.empty_table()
        for batch in reader:
            # Batches come as they fall; pieces that do not make equal files of equal rows.
            rest = pa.concat_tables([rest, pa.Table.from_batches([batch])])
            while rest.num_rows >= _ROWS_AT_ONCE:
                yield rest.slice(0, _ROWS_AT_ONCE)
                rest = rest.slice(_ROWS_AT_ONCE)
        yield rest

    def keys(self) -> dict[str, list[str]]:
        """The key of each mart, as its model states it."""
        models = read_models(sql_folder(), self.db)
        return {model.name: [key.column for key in model.grain] for model in models}


@contextmanager
def snapshot(lake_path: Path, spill: Path, memory: str | None = None, threads: int | None = None) -> Iterator[Snapshot]:
    """The published state. What the database can't hold in memory it puts into the folder `spill`.

    Raises LakeError without a lake, or where the state's files went while they were read.
    """
    connect(lake_path).close()  # tells what is wrong with a lake
    lake = Lake(lake_path.expanduser().absolute())
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory or DEFAULT_MEMORY,
        "temp_directory": str(spill),
    }
    if threads:
        config["threads"] = threads
    with closing(duckdb.connect(config=config)) as db:
        db.execute("set TimeZone = 'UTC'")
        published = _attach(db, lake)
        state = State(published.state_id, lake.path / ".states" / published.state_id)
        try:
            yield Snapshot(db, state, published.inputs.get("currency", "USD"))
        except (duckdb.IOException, FileNotFoundError) as error:
            if state.path.is_dir():
                raise
            raise LakeError(f"{lake.path} was built anew several times meanwhile: run this again") from error


def _attach(db: duckdb.DuckDBPyConnection, lake: Lake) -> Published:
    """Opens the database in place; returns what it was built from."""
    while True:
        published = lake.published()
        if published is None:
            raise LakeError(f"{lake.database} is none that turnlake published: run `turnlake model --lake {lake.path}`")
        db.execute(f"attach {quoted(str(lake.database))} as turnlake (read_only)")
        if lake.published() == published:
            db.execute("use turnlake")
            return published
        db.execute("detach turnlake")

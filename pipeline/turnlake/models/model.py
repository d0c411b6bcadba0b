"""A model: one plain SQL file, what its comments promise, which tables it reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

import orjson

from turnlake.errors import ModelError
from turnlake.rows.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from duckdb import DuckDBPyConnection

# What a layer may read. Only staging touches raw, so that a change of the raw tables stops there.
READABLE = {
    "staging": ("raw", "staging"),
    "intermediate": ("staging", "intermediate"),
    "marts": ("staging", "intermediate", "marts"),
}
LAYERS = tuple(READABLE)
RAW_VIEWS = frozenset(f"raw.{name}" for name in (*TABLES, "chunks", "loads", "prices", "holidays", "settings"))

# A cached view is a table in memory while other models are built, and a plain view in the finished database.
STORED_AS = ("table", "view", "cached view")

HEADER_LINE = re.compile(r"-- (grain|check|stored as|key of|rows depend on): (.*)")
FINAL_SELECT = re.compile(r"^select(?: distinct)?$", re.MULTILINE)
COMMENT_BLOCK = re.compile(r"^((?:    -- .*\n)+)", re.MULTILINE)
# Comments and texts, in which nothing is read; then words (with their schema), brackets and commas.
NO_CODE = re.compile(r"--.*|'[^']*'")
TOKEN = re.compile(r"[\w.]+|[(),]")
# A text with one of these is left to DuckDB's parser.
UNUSUAL = re.compile(r"[\";$]|/\*|\b(?:pivot|unpivot|table|lateral|only)\b")
# All texts in one query: what each query costs by itself is as much. What is not said is left out of the trees.
TREES = """
select json_serialize_sql(sql, skip_null := true, skip_empty := true, skip_default := true)
from (select unnest($1::varchar[]) as sql)
"""
# The last word of an expression is the column's name.
COLUMN_NAME = re.compile(r"(\w+),?\s*$")


@dataclass(frozen=True)
class Key:
    """A column of a grain. A nullable one (`name?`) may be unknown; NULL then counts as one more value."""

    column: str
    is_nullable: bool


@dataclass(frozen=True)
class Model:
    """A model: `sql` is the file as it is, `about` what one row is, `columns` the comment of each column."""

    name: str
    path: Path
    sql: str
    about: str
    grain: tuple[Key, ...]
    # The model whose key makes this one's key hold; it is not counted out again.
    key_of: str | None
    checks: tuple[str, ...]
    stored_as: str
    # The columns a row shares with all rows it is made from; () where it may be made from any.
    depends_on: tuple[str, ...]
    columns: Mapping[str, str]
    reads: frozenset[str]

    @property
    def layer(self) -> str:
        """The schema of the model."""
        return self.name.split(".")[0]

    @property
    def is_by_session(self) -> bool:
        """Whether the rows of a session depend on the logs of that session alone."""
        return self.depends_on == ("session_id",)

    @property
    def query(self) -> str:
        """The file's one statement, fit to stand inside another."""
        return self.sql.strip().removesuffix(";")


def read_models(root: Path, db: DuckDBPyConnection) -> list[Model]:
    """Every model below `root`, each after the models it reads. Raises ModelError."""
    paths = [path for layer in LAYERS for path in sorted((root / layer).glob("*.sql"))]
    models = {model.name: model for model in _read([path for path in paths if path.suffixes == [".sql"]], db)}
    for model in models.values():
        _check_reads(model, models.keys() | RAW_VIEWS)
        _check_dependence(model, models)
    graph = {name: sorted(model.reads & models.keys()) for name, model in models.items()}
    try:
        return [models[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        cycle: list[str] = error.args[1]
        raise ModelError(f"{models[cycle[0]].path}: models read each other in a circle: {' -> '.join(cycle)}") from None


def read_model(path: Path, db: DuckDBPyConnection) -> Model:
    """One model. Raises ModelError where its text can't be parsed or promises nothing."""
    [model] = _read([path], db)
    return model


def _read(paths: Sequence[Path], db: DuckDBPyConnection) -> Iterator[Model]:
    texts = [path.read_text(encoding="utf-8") for path in paths]
    reads = [plain_tables_read(sql) for sql in texts]
    unusual = [number for number, tables in enumerate(reads) if tables is None]
    if unusual:
        trees = db.execute(TREES, [[texts[number] for number in unusual]]).fetchall()
        for number, (tree,) in zip(unusual, trees, strict=True):
            reads[number] = tables_read(paths[number], orjson.loads(tree))
    for path, sql, tables in zip(paths, texts, reads, strict=True):
        yield _model(path, sql, tables or frozenset())


def _model(path: Path, sql: str, reads: frozenset[str]) -> Model:
    """The model in a file's text, which reads these tables."""
    header = _header(sql)
    about = header[0].removeprefix("-- ") if header else ""
    if not about or HEADER_LINE.fullmatch(header[0]):
        raise ModelError(f"{path}: the first line must say what one row is")
    stated = [match.groups() for match in map(HEADER_LINE.fullmatch, header) if match]
    layer = path.parent.name
    stored_as = _last(stated, "stored as") or ("view" if layer == "staging" else "table")
    if stored_as not in STORED_AS:
        raise ModelError(f"{path}: stored as {stored_as!r} is none of {', '.join(STORED_AS)}")
    return Model(
        name=f"{layer}.{path.stem}",
        path=path,
        sql=sql,
        about=about,
        grain=_grain(path, _last(stated, "grain")),
        key_of=_last(stated, "key of"),
        checks=tuple(value for key, value in stated if key == "check"),
        stored_as=stored_as,
        depends_on=_words(_last(stated, "rows depend on")),
        columns=dict(_column_comments(path, sql)),
        reads=reads,
    )


def _header(sql: str) -> list[str]:
    """The comment lines at the top of a file."""
    lines = sql.splitlines()
    end = next((number for number, line in enumerate(lines) if not line.startswith("-- ")), len(lines))
    return lines[:end]


def _last(stated: list[tuple[str, ...]], key: str) -> str | None:
    return next((value for name, value in reversed(stated) if name == key), None)


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",")) if text else ()


def _grain(path: Path, text: str | None) -> tuple[Key, ...]:
    if not text:
        raise ModelError(f"{path}: the header states no grain (`-- grain: column, column`)")
    return tuple(Key(name.strip().removesuffix("?"), name.strip().endswith("?")) for name in text.split(","))


def _column_comments(path: Path, sql: str) -> Iterator[tuple[str, str]]:
    """Name and comment of each column of the last select that starts a line."""
    selects = list(FINAL_SELECT.finditer(sql))
    if not selects:
        raise ModelError(f"{path}: no line is just `select`, so its columns can't be told")
    columns = re.split(r"^from\b", sql[selects[-1].end() :], maxsplit=1, flags=re.MULTILINE)[0]
    before, *parts = COMMENT_BLOCK.split(columns)
    if before.strip():
        raise ModelError(f"{path}: column {before.strip().splitlines()[0]!r} has no comment above it")
    for comment, expression in zip(parts[::2], parts[1::2], strict=True):
        name = COLUMN_NAME.search(expression)
        if name is None:
            raise ModelError(f"{path}: no column follows the comment {comment.strip()!r}")
        yield name[1], " ".join(line.strip().removeprefix("-- ") for line in comment.splitlines())


def plain_tables_read(sql: str) -> frozenset[str] | None:
    """The tables (`schema.table`) that a text reads, where it names them as most files do; else None.

    DuckDB's own parser takes several times as long, and where the text is plain they agree.
    """
    bare = NO_CODE.sub(" ", sql.strip().removesuffix(";")).lower()
    if UNUSUAL.search(bare):
        return None
    tokens = [*TOKEN.findall(bare), *[""] * 4]
    is_step = {"(", "materialized", "not"}
    steps = {tokens[at - 1] for at, token in enumerate(tokens) if token == "as" and tokens[at + 1] in is_step}
    tables = set()
    for at, token in enumerate(tokens):
        if token not in ("from", "join") or tokens[at - 1] == "distinct":
            continue
        name, *behind = tokens[at + 1 : at + 5]
        if name == "(" or behind[0] == "(":
            # A query in brackets, or a function.
            continue
        if name.count(".") == 1:
            tables.add(name)
        elif name not in steps:
            return None
        # A second table behind a comma, with or without a name of its own for the first.
        if "," in behind[: 3 if behind[0] == "as" else 2] and ")" not in behind[:2]:
            return None
    return frozenset(tables)


def tables_read(path: Path, tree: Mapping[str, Any]) -> frozenset[str]:
    """The tables (`schema.table`) in the tree that DuckDB's parser made of a file. ModelError where it is no model."""
    if tree["error"]:
        # A pivot without `in` is several statements, hence refused here: its columns would depend on the data.
        raise ModelError(f"{path}: {tree['error_message']}")
    if len(tree["statements"]) != 1:
        raise ModelError(f"{path}: a model is one select, this file holds {len(tree['statements'])} statements")
    tables = set()
    nodes = list(_objects(tree))
    local = {entry["key"].lower() for node in nodes for entry in node.get("cte_map", {}).get("map", ())}
    for node in nodes:
        if node.get("type") != "BASE_TABLE":
            continue
        if node.get("catalog_name"):
            raise ModelError(f"{path}: table {node['table_name']} names a database; name its schema only")
        if "schema_name" in node:
            tables.add(f"{node['schema_name']}.{node['table_name']}")
        elif node["table_name"].lower() not in local:
            raise ModelError(f"{path}: table {node['table_name']} has no schema and is no step of the query")
    return frozenset(tables)


def _objects(tree: Any) -> Iterator[dict[str, Any]]:
    """All JSON objects of a tree."""
    rest = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, dict):
            yield node
            rest.extend(node.values())
        elif isinstance(node, list):
            rest.extend(node)


def _check_reads(model: Model, known: frozenset[str] | set[str]) -> None:
    for name in sorted(model.reads):
        if name.split(".")[0] not in READABLE[model.layer]:
            raise ModelError(f"{model.path}: a model of {model.layer} may not read {name}")
        if name not in known:
            raise ModelError(f"{model.path}: there is no table {name}")


def _check_dependence(model: Model, models: Mapping[str, Model]) -> None:
    """Refuses what can't depend on so little: a column it has not, a row made from rows that depend on more."""
    if not model.depends_on:
        return
    for column in model.depends_on:
        if column not in model.columns:
            raise ModelError(f"{model.path}: its rows can't depend on {column}, which is none of its columns")
    for name in sorted(model.reads & models.keys()):
        if not models[name].depends_on:
            raise ModelError(f"{model.path}: its rows depend on more than it says: those of {name} depend on any")

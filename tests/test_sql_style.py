from __future__ import annotations

import re
from pathlib import Path

import duckdb
import orjson
import pytest

from turnlake.models.folder import sql_folder
from turnlake.models.model import READABLE, TREES, plain_tables_read, read_models, tables_read

ROOT = sql_folder()
FILES = sorted(ROOT.rglob("*.sql"))
MODELS = [path for path in FILES if path.parent.name in READABLE and path.suffixes == [".sql"]]
KEYWORDS = (
    "all and as asc asof between by case cast create cross desc distinct else end except exclude exists false filter "
    "following from group having in inner is join lateral left like limit macro not null on or order over partition "
    "preceding qualify recursive replace right row rows select semi then true union using values when where window with"
).split()
# Their answer depends on the clock, the reader's time zone, or the order in which rows happen to come.
UNSTABLE = "now today current_date current_timestamp date_trunc random uuid any_value first last mode setseed".split()

# A function of JSON, an arrow into it, or a cast to it; a column's name may hold the word.
JSON = re.compile(r"\bjson\w*\s*\(|\bto_json\b|\bfrom_json\b|->|::\s*json\b|\bas json\b", re.IGNORECASE)
# Whether the arguments of the few calls that never started are JSON; the text of messages.
PARSES_JSON = {"marts/tool_calls.sql", "marts/transcript.sql"}


def code(path: Path) -> str:
    """The SQL of a file without comments and strings."""
    text = re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
    return re.sub(r"'(?:[^']|'')*'", "''", text)


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def test_there_are_models() -> None:
    assert {path.parent.name for path in MODELS} == set(READABLE)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_sql_is_written_in_one_style(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n") and not text.endswith("\n\n")
    for number, line in enumerate(text.splitlines(), start=1):
        place = f"{named(path)}:{number}"
        assert len(line) <= 120 and line == line.rstrip() and "\t" not in line, place
        assert (len(line) - len(line.lstrip())) % 4 == 0, f"{place}: indent by 4"
    words = re.findall(r"[A-Za-z_]+", code(path))
    assert not [word for word in words if word.lower() in KEYWORDS and word != word.lower()], "keywords are lower-case"


@pytest.mark.parametrize("path", FILES, ids=named)
def test_sql_gives_the_same_rows_everywhere_and_always(path: Path) -> None:
    text = code(path)
    for word in UNSTABLE:
        assert not re.search(rf"\b{word}\s*\(", text), f"{word}() in {named(path)}"
    casts = [
        match for match in re.findall(r"(\S+)::date\b", text) if "'UTC'" not in match and path.parent.name != "macros"
    ]
    assert not casts, "days are told by day_of"
    assert not JSON.search(text) or named(path) in PARSES_JSON, "no other model parses JSON"


def test_every_macro_is_used_and_its_parameters_start_with_p() -> None:
    texts = "\n".join(code(path) for path in FILES)
    raw_views = (Path(__file__).parent.parent / "pipeline" / "turnlake" / "models" / "raw.py").read_text(
        encoding="utf-8"
    )
    for path in sorted((ROOT / "macros").glob("*.sql")):
        for name, parameters in re.findall(r"create or replace macro (\w+)\(([^)]*)\)", code(path)):
            assert len(re.findall(rf"\b{name}\(", texts + raw_views)) > 1, f"macro {name} is not used"
            assert all(parameter.strip().startswith("p_") for parameter in parameters.split(",")), name


def test_every_model_is_described_and_reads_only_downwards() -> None:
    with duckdb.connect() as db:
        models = read_models(ROOT, db)
    assert len(models) == len(MODELS)
    for model in models:
        assert model.about.startswith("One row per "), model.path
        assert model.about.endswith("."), model.path
        for column, about in model.columns.items():
            assert about.endswith(".") and len(about) > 5, f"{model.name}.{column}: {about}"
        assert {name.split(".")[0] for name in model.reads} <= set(READABLE[model.layer])


def test_the_tables_a_model_reads_are_those_that_duckdb_finds() -> None:
    texts = [path.read_text(encoding="utf-8") for path in MODELS]
    with duckdb.connect() as db:
        trees = [orjson.loads(tree) for (tree,) in db.execute(TREES, [texts]).fetchall()]
    found = [plain_tables_read(text) for text in texts]
    for path, plain, tree in zip(MODELS, found, trees, strict=True):
        assert plain is None or plain == tables_read(path, tree), named(path)
    # The others are read by DuckDB, which takes longer.
    assert found.count(None) <= 3


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("select 1 from marts.a;", {"marts.a"}),
        ("select 'from marts.x' from marts.a -- from marts.y", {"marts.a"}),
        ("with a as (from marts.b), c as materialized (select 1) from a join c using (x)", {"marts.b"}),
        ("select a is distinct from b from marts.a as t left join marts.b using (x)", {"marts.a", "marts.b"}),
        ("select (select max(x) from marts.a), y from unnest([1]) as t(y)", {"marts.a"}),
        ("FROM marts.A semi JOIN (from marts.b) as b using (x)", {"marts.a", "marts.b"}),
        ("from bare", None),
        ("from lake.marts.a", None),
        ("from marts.a, marts.b", None),
        ("from marts.a as t, marts.b", None),
        ('from "marts".a', None),
        ("from marts.a; select 1", None),
        ("from (pivot marts.a on x using sum(y))", None),
        ("table marts.a", None),
    ],
)
def test_texts_that_are_not_plain_are_left_to_duckdb(sql: str, tables: set[str] | None) -> None:
    assert plain_tables_read(sql) == tables

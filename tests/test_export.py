"""`turnlake export`: what is in it, what is not, and what it refuses."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

from canaries import CANARY, PRICES, SECRET, write_canaries
from lakes import rows
from turnlake.api import connect
from turnlake.cli import main
from turnlake.errors import LakeError, UsageError
from turnlake.export.columns import COLUMNS, Action
from turnlake.export.copy import export
from turnlake.export.texts import is_text
from turnlake.hashing import Hasher
from turnlake.rows.tables import TABLES

HASHER = Hasher(b"k" * 32)
WHOLE_SECRET = re.compile(r"sk-zqs\d{5}abcdefghijkl")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of canaries."""
    folder = tmp_path_factory.mktemp("canaries")
    write_canaries(folder / "zqx root")
    source = f"zqxmachine={folder / 'zqx root'}"
    (folder / "prices.csv").write_text(PRICES)
    prices = ["--prices", str(folder / "prices.csv")]
    # What the check says of such logs is not the matter here.
    assert main(["build", source, "--lake", str(folder / "lake"), "--workers", "1", "-q", *prices]) in (0, 1)
    return folder / "lake"


@pytest.fixture(scope="module")
def sample_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small lake of whole sessions."""
    folder = tmp_path_factory.mktemp("sample")
    assert main(["sample", str(folder / "logs"), "--sessions", "4", "--mb", "0.2", "-q"]) == 0
    assert main(["build", str(folder / "logs"), "--lake", str(folder / "lake"), "--workers", "1", "-q"]) == 0
    return folder / "lake"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config folder for the key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def uncompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet files whose pages can be searched as they are, dictionaries and statistics included."""

    class Open(pq.ParquetWriter):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **(options | {"compression": "none", "compression_level": None}))

    monkeypatch.setattr(pq, "ParquetWriter", Open)


def parquet_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Each file of an export with the table it belongs to."""
    for path in sorted(folder.glob("raw/*/*.parquet")):
        yield f"raw.{path.parent.name}", path
    for path in sorted(folder.glob("marts/*.parquet")):
        yield f"marts.{path.stem}", path


def read(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table of an export."""
    return [row for name, path in parquet_files(folder) if name == table for row in pq.read_table(path).to_pylist()]


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_column_of_every_table_is_classified(sample_lake: Path) -> None:
    with connect(sample_lake) as db:
        found = rows(
            db, "select table_name, column_name from duckdb_columns() where schema_name = 'marts' and not internal"
        )
    exported = {(f"marts.{row['table_name']}", row["column_name"]) for row in found}
    exported |= {(f"raw.{table.name}", column) for table in TABLES.values() for column in table.names}
    assert exported == {(table, column) for table, columns in COLUMNS.items() for column in columns}


def test_no_text_is_kept_as_a_number_and_no_number_is_hashed(sample_lake: Path, tmp_path: Path) -> None:
    export(sample_lake, tmp_path / "out")
    for table, path in parquet_files(tmp_path / "out"):
        for field in pq.read_schema(path):
            assert (COLUMNS[table][field.name] is not Action.KEEP) == is_text(field.type), f"{table}.{field.name}"


@pytest.mark.usefixtures("uncompressed")
def test_metrics_only_lets_no_canary_out(lake: Path, tmp_path: Path) -> None:
    export(lake, tmp_path / "plain")
    marts = [path for table, path in parquet_files(tmp_path / "plain") if table.startswith("marts")]
    assert any(SECRET in path.read_bytes() for path in marts)

    export(lake, tmp_path / "out", hasher=HASHER)
    for name, data in bytes_of(tmp_path / "out").items():
        assert CANARY not in data + name.encode(), name
        assert SECRET not in data, name
        assert os.fsencode(tmp_path) not in data, name
    assert sum(len(read(tmp_path / "out", table)) for table in COLUMNS) > 1000


def test_the_canaries_reach_every_text_column_of_the_raw_tables(lake: Path, tmp_path: Path) -> None:
    """Else the test above proves nothing about them."""
    export(lake, tmp_path / "plain")
    reached = set()
    for table, path in parquet_files(tmp_path / "plain"):
        content = pq.read_table(path)
        reached |= {(table, name) for name in content.column_names if CANARY.decode() in str(content[name].to_pylist())}
    own = {Action.OWN, Action.KEEP}
    expected = {(table, name) for table, rules in COLUMNS.items() for name, rule in rules.items() if rule not in own}
    assert expected - reached <= NOT_REACHED
    assert not reached & {(table, name) for table, rules in COLUMNS.items() for name in rules} - expected


# What turnlake makes itself, hashes above all, and columns that are empty in these logs.
NOT_REACHED = {
    *(("raw." + table, "log_id") for table in ("logs", "events", "chunk_runs", "findings")),
    *(("marts." + table, "log_id") for table in ("findings", "projection_checks")),
    *(("marts.projection_checks", name) for name in ("log_hash", "table_hash", "reason")),
    *(("raw.logs", name) for name in ("file_name", "superseded_by", "proof")),
    *(("raw.chunk_runs", name) for name in ("error_name", "raw_line")),
    ("raw.events", "sql_payload"),
    ("marts.attempts", "price_id"),
    ("marts.synthetic_events", "call_id"),
    ("marts.transcript", "type"),
}


def test_names_that_are_well_known_stay(sample_lake: Path, tmp_path: Path) -> None:
    export(sample_lake, tmp_path / "out", hasher=HASHER)
    attempts, calls = read(tmp_path / "out", "marts.attempts"), read(tmp_path / "out", "marts.tool_calls")
    assert {"deepseek-official"} <= {row["provider"] for row in attempts}
    assert {"bash", "read"} <= {row["tool_name"] for row in calls}
    assert {row["state"] for row in read(tmp_path / "out", "marts.turns")} >= {"completed"}


def test_numbers_are_as_they_were_and_tables_still_join(sample_lake: Path, tmp_path: Path) -> None:
    export(sample_lake, tmp_path / "plain")
    export(sample_lake, tmp_path / "out", hasher=HASHER)
    query = """
        select count(*) as n, sum(a.total_tokens)::bigint as tokens, sum(a.cost) as cost, count(distinct s.project) as p
        from '{0}/marts/attempts.parquet' as a
        join '{0}/marts/sessions.parquet' as s using (session_id)
        join '{0}/raw/logs/*.parquet' as l on s.session_id = l.session_id
        where l.log_id in (select log_id from '{0}/raw/events/*.parquet')
    """
    with duckdb.connect() as db:
        plain, hidden = (rows(db, query.format(tmp_path / name)) for name in ("plain", "out"))
    assert plain == hidden
    assert plain[0]["n"] > 0


def test_an_attempt_id_keeps_its_numbers(lake: Path, sample_lake: Path, tmp_path: Path) -> None:
    for one in (lake, sample_lake):
        export(one, tmp_path / one.parent.name, hasher=HASHER)
        for row in read(tmp_path / one.parent.name, "marts.attempts"):
            session, _, rest = row["attempt_id"].partition("/")
            assert session == row["session_id"]
            assert re.fullmatch(r"(compaction/\d+|\d*\.\d*\.\d+)(/b\d+)?", rest)


def test_the_key_decides_the_hashes(sample_lake: Path, tmp_path: Path) -> None:
    for name, key in (("a", b"1"), ("b", b"2")):
        export(sample_lake, tmp_path / name, hasher=Hasher(key * 32))
    ids = [{row["session_id"] for row in read(tmp_path / name, "marts.sessions")} for name in ("a", "b")]
    assert ids[0]
    assert not ids[0] & ids[1]


@pytest.mark.usefixtures("uncompressed")
def test_redacting_leaves_no_secret(lake: Path, tmp_path: Path) -> None:
    manifest = export(lake, tmp_path / "out", redact=True)
    for name, data in bytes_of(tmp_path / "out").items():
        assert SECRET not in data, name
    assert manifest["redacted"]["raw.events"]["ai-key"] > 100


def test_redacting_changes_nothing_else(lake: Path, tmp_path: Path) -> None:
    export(lake, tmp_path / "plain")
    export(lake, tmp_path / "out", redact=True)
    files = list(parquet_files(tmp_path / "plain"))
    assert [table for table, _ in files] == [table for table, _ in parquet_files(tmp_path / "out")]
    for _, path in files:
        before, after = pq.read_table(path), pq.read_table(tmp_path / "out" / path.relative_to(tmp_path / "plain"))
        assert before.schema == after.schema
        for name in before.column_names:
            if name != "excerpt":
                assert after[name].to_pylist() == [without(cell) for cell in before[name].to_pylist()], (path, name)


def without(cell: Any) -> Any:
    """What is expected of a cell."""
    if isinstance(cell, list):
        return [without(item) for item in cell]
    return WHOLE_SECRET.sub("[REDACTED:ai-key]", cell) if isinstance(cell, str) else cell


def test_redacted_payloads_are_json(lake: Path, tmp_path: Path) -> None:
    export(lake, tmp_path / "out", redact=True)
    assert [json.loads(row["payload"]) for row in read(tmp_path / "out", "raw.events")]
    assert [json.loads(row["stream"]) for row in read(tmp_path / "out", "raw.events") if row["stream"] is not None]
    assert [json.loads(row["payload"]) for row in read(tmp_path / "out", "raw.chunk_runs")]


def test_a_plain_copy_holds_the_state_byte_by_byte(sample_lake: Path, tmp_path: Path) -> None:
    export(sample_lake, tmp_path / "out")
    for table in TABLES:
        files = sorted((sample_lake / table).glob("*.parquet"))
        assert [path.read_bytes() for path in files] == [
            path.read_bytes() for path in sorted((tmp_path / "out" / "raw" / table).glob("*.parquet"))
        ]
    with connect(sample_lake) as db:
        for mart in ("turns", "attempts", "messages", "usage_daily"):
            [expected] = rows(db, f"select count(*) as n from marts.{mart}")
            assert len(read(tmp_path / "out", f"marts.{mart}")) == expected["n"]


@pytest.mark.parametrize("options", [{}, {"hasher": HASHER}, {"redact": True}], ids=["plain", "metrics", "redacted"])
def test_equal_lakes_and_options_give_equal_bytes(sample_lake: Path, tmp_path: Path, options: Any) -> None:
    export(sample_lake, tmp_path / "a", threads=1, **options)
    export(sample_lake, tmp_path / "b", threads=2, memory="200MB", **options)
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


def test_polars_and_duckdb_read_an_export_by_a_glob(sample_lake: Path, tmp_path: Path) -> None:
    export(sample_lake, tmp_path / "out", hasher=HASHER)
    with duckdb.connect() as db:
        [[count]] = db.execute(f"select count(*) from '{tmp_path / 'out'}/raw/events/*.parquet'").fetchall()
    assert pl.scan_parquet(tmp_path / "out" / "raw" / "events" / "*.parquet").collect().height == count > 0


def test_the_manifest_tells_every_file(sample_lake: Path, tmp_path: Path) -> None:
    manifest = export(sample_lake, tmp_path / "out", hasher=HASHER)
    assert json.loads((tmp_path / "out" / "manifest.json").read_bytes()) == manifest
    told = {file["path"] for table in manifest["tables"].values() for file in table["files"]}
    assert told | {"manifest.json"} == set(bytes_of(tmp_path / "out"))
    assert "payload" in manifest["tables"]["raw.events"]["left_out"]
    assert manifest["key_id"] == HASHER.key_id


def test_an_earlier_export_is_replaced(sample_lake: Path, tmp_path: Path) -> None:
    export(sample_lake, tmp_path / "out")
    export(sample_lake, tmp_path / "out", hasher=HASHER)
    assert "title" not in read(tmp_path / "out", "marts.sessions")[0]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_folder_is_filled(sample_lake: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    export(sample_lake, tmp_path / "out")
    assert read(tmp_path / "out", "marts.turns")


def test_a_folder_with_anything_else_is_left_alone(sample_lake: Path, tmp_path: Path) -> None:
    export(sample_lake, tmp_path / "out")
    (tmp_path / "out" / "raw" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"raw/mine\.txt"):
        export(sample_lake, tmp_path / "out", redact=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_text('{"name": "web app"}')
    with pytest.raises(UsageError, match=r"manifest\.json"):
        export(sample_lake, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"]


def test_the_lake_is_no_target(sample_lake: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(sample_lake)
    for target in (sample_lake, sample_lake / "x", tmp_path / "link" / "x", sample_lake / "events" / ".." / "y"):
        with pytest.raises(UsageError, match="is in the lake"):
            export(sample_lake, target)
    with pytest.raises(UsageError, match="holds "):
        export(sample_lake, sample_lake.parent)


def test_a_file_is_no_target(sample_lake: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError, match="is no folder"):
        export(sample_lake, tmp_path / "out")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_can_not_be_written(sample_lake: Path, tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(0o500)
    with pytest.raises(UsageError, match="can't be written"):
        export(sample_lake, tmp_path / "shut" / "out")


def test_a_failure_leaves_nothing(sample_lake: Path, tmp_path: Path) -> None:
    def fail(done: int) -> None:
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        export(sample_lake, tmp_path / "out", on_table=fail)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_export_left_is_swept(sample_lake: Path, tmp_path: Path) -> None:
    (tmp_path / ".out.export-4194399").mkdir()
    (tmp_path / f".out.export-{os.getppid()}").mkdir()
    export(sample_lake, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".out.export-{os.getppid()}", "out"]


def test_the_command(sample_lake: Path, tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", str(tmp_path / "out"), "--lake", str(sample_lake), "-q"]
    assert main([*words, "--metrics-only", "--strict"]) == 0
    told = capsys.readouterr().out
    assert "metrics-only" in told
    assert str(config / "turnlake" / "hash-key") in told
    assert main([*words, "--redact", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mode"] == "redacted"
    assert main([*words]) == 0
    assert "An exact copy" in capsys.readouterr().out


def test_the_command_refuses(sample_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = ["--lake", str(sample_lake)]
    assert main(["export", *lake]) == 2
    assert main(["export", str(tmp_path / "out"), "--redact", "--metrics-only", *lake]) == 2
    assert main(["export", str(sample_lake / "x"), *lake]) == 2
    assert main(["export", str(tmp_path / "out"), "--lake", str(tmp_path / "none")]) == 2
    assert "there is no lake" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_unknown_origin_is_refused(sample_lake: Path, tmp_path: Path) -> None:
    record = sample_lake / ".states" / "published.json"
    content = record.read_bytes()
    record.unlink()
    try:
        with pytest.raises(LakeError, match="turnlake model"):
            export(sample_lake, tmp_path / "out")
    finally:
        record.write_bytes(content)


def test_a_column_that_nobody_classified_is_left_out_and_told(
    sample_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fewer = {name: rule for name, rule in COLUMNS["marts.turns"].items() if name != "step_count"}
    monkeypatch.setitem(COLUMNS, "marts.turns", fewer)  # type: ignore[arg-type]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    words = ["export", str(tmp_path / "out"), "--metrics-only", "--lake", str(sample_lake)]
    assert main([*words, "--strict"]) == 1
    assert "marts.turns.step_count" in capsys.readouterr().err
    assert "step_count" not in read(tmp_path / "out", "marts.turns")[0]


def test_projects_stay_apart_and_unreadable(cases: Path, tmp_path: Path) -> None:
    expected = json.loads((cases / "S13" / "expected.json").read_text())
    lake = tmp_path / "lake"
    assert main(["build", str(cases / "S13"), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    export(lake, tmp_path / "out", hasher=HASHER)
    sessions = read(tmp_path / "out", "marts.sessions")
    assert len({row["project"] for row in sessions}) == expected["projects_in_hashed_mode"]
    sums = {row["project"]: 0 for row in sessions}
    for row in sessions:
        sums[row["project"]] += row["input_tokens"]
    assert sums == {HASHER.hashed(name): facts["input"] for name, facts in expected["projects"].items()}
    content = str([read(tmp_path / "out", table) for table in COLUMNS])
    for text, is_contained in (expected["hashed_mode_contains"] | expected["metrics_output_contains"]).items():
        assert (text in content) is is_contained
    export(lake, tmp_path / "redacted", redact=True)
    redacted = str([read(tmp_path / "redacted", table) for table in COLUMNS])
    assert "sk-testtesttesttest" not in redacted
    assert "我的密钥是 [REDACTED:ai-key]" in redacted

"""The rows of `logs` of an ingest: what stays as stored, what changes, and that the file is the same either way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from turnlake.lake.log_table import DECIDING, LogTable
from turnlake.rows.stored import runs_of_log
from turnlake.rows.tables import LOGS
from turnlake.rows.writer import write_rows, write_table


def row(log_id: str, **values: Any) -> dict[str, Any]:
    """A row of `logs` with all its columns."""
    return dict.fromkeys(LOGS.names) | {"log_id": log_id, "is_missing": False, "proof": f"proof of {log_id}"} | values


def stored(*rows: dict[str, Any]) -> pa.Table:
    """The rows in Arrow, as a state stores them."""
    return pa.Table.from_pylist(list(rows), schema=LOGS.schema())


def test_rows_come_out_in_the_order_asked_for_new_ones_among_them() -> None:
    rows = LogTable(stored(*map(row, "abcde")))
    rows.put("x", row("x", bytes=1))
    rows.put("c", row("c", bytes=2))
    expected = [row("b"), row("x", bytes=1), row("c", bytes=2), row("d"), row("e"), row("a")]
    assert rows.table("bxcdea").to_pylist() == expected


def test_a_row_that_is_set_keeps_its_other_columns() -> None:
    rows = LogTable(stored(row("a", cwd="/w"), row("b")))
    rows.set("a", {"is_missing": True})
    assert rows["a"] == row("a", cwd="/w", is_missing=True)
    assert rows.table("ab").to_pylist() == [row("a", cwd="/w", is_missing=True), row("b")]


def test_a_row_that_is_set_to_what_it_is_stays_in_arrow() -> None:
    rows = LogTable(stored(row("a", cwd="/w")))
    rows.set("a", {"is_missing": False, "superseded_by": None})
    assert rows["a"].keys() == set(DECIDING)
    assert rows.whole("a") == row("a", cwd="/w")


def test_a_row_that_is_dropped_is_gone_until_it_is_put_again() -> None:
    rows = LogTable(stored(row("a"), row("b")))
    assert rows.drop("a") is not None
    assert rows.drop("a") is None
    assert list(rows) == ["b"]
    rows.put("a", row("a", bytes=3))
    assert rows.table("ab").to_pylist() == [row("a", bytes=3), row("b")]


def test_what_another_version_did_not_store_is_null() -> None:
    rows = LogTable(stored(row("a", cwd="/w")).drop_columns(["proof"]))
    assert rows.table("a").to_pylist() == [row("a", cwd="/w", proof=None)]


def test_no_rows_are_a_table_too() -> None:
    assert LogTable().table(()).equals(LOGS.schema().empty_table())


def test_the_file_is_the_same_whether_rows_stayed_in_arrow_or_not(tmp_path: Path) -> None:
    whole = [row(f"{number:05}", bytes=number, header="h" * (number % 7), proof="p" * 900) for number in range(5000)]
    write_rows(tmp_path / "anew.parquet", LOGS, whole)
    rows = LogTable(pq.ParquetFile(tmp_path / "anew.parquet").read())
    for number in (0, 17, 18, 4999):
        rows.put(whole[number]["log_id"], whole[number])
    write_table(tmp_path / "carried.parquet", LOGS, rows.table(one["log_id"] for one in whole))
    assert (tmp_path / "carried.parquet").read_bytes() == (tmp_path / "anew.parquet").read_bytes()


def test_rows_of_one_log_are_found_in_all_row_groups(tmp_path: Path) -> None:
    lines = pa.table({"log_id": list("abbacca"), "line": [9, 1, 2, 4, 5, 6, 3], "type": list("tuvwxyz")})
    pq.write_table(lines, tmp_path / "part.parquet", row_group_size=2)
    pq.write_table(lines.slice(0, 0), tmp_path / "tail.parquet")
    parts = [tmp_path / "part.parquet", tmp_path / "tail.parquet"]
    runs = [[tuple(row.values()) for row in run] for run in runs_of_log(parts, "a", ("line", "type"))]
    assert runs == [[(9, "t")], [(4, "w")], [(3, "z")]]
    assert list(runs_of_log(parts, "d", ("line", "type"))) == []

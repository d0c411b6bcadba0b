"""The queries of sql/reports, asked about one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnlake.inspect.session import Row, Session, rows
from turnlake.models.folder import sql_folder
from turnlake.models.text import quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PARAMETERS = ("session_id", "turn", "call_id", "seq")


def report(session: Session, name: str, **parameters: str | int | None) -> list[Row]:
    """The rows of a report about a session."""
    return report_of(session.db, name, session_id=session.session_id, **parameters)


def report_of(db: DuckDBPyConnection, name: str, **parameters: str | int | None) -> list[Row]:
    """The rows of a report; its parameters are set for it, those of an earlier one unset."""
    for parameter, value in (dict.fromkeys(PARAMETERS) | parameters).items():
        text = "null" if value is None else str(value) if isinstance(value, int) else quoted(value)
        db.execute(f"set variable {parameter} = {text}")
    return rows(db, (sql_folder() / "reports" / f"{name}.sql").read_text("utf-8"))

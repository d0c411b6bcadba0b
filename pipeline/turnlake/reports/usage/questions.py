"""The queries of `sql/reports/usage`, asked about a period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from turnlake.errors import UsageError
from turnlake.models.folder import sql_folder
from turnlake.models.text import quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from turnlake.reports.usage.period import Period

Row = dict[str, Any]


def ask(db: DuckDBPyConnection, name: str, period: Period, keys: Sequence[str] = ()) -> list[Row]:
    """The rows of `sql/reports/usage/<name>.sql`. Raises UsageError where the database knows no such time zone."""
    import duckdb

    since, until = (quoted(at.isoformat()) if at else "null" for at in (period.since, period.until))
    db.execute(f"set variable since = {since}")
    db.execute(f"set variable until = {until}")
    db.execute(f"set variable tz = {quoted(period.zone)}")
    db.execute(f"set variable keys = [{', '.join(map(quoted, keys))}]")
    query = (sql_folder() / "reports" / "usage" / f"{name}.sql").read_text(encoding="utf-8")
    try:
        result = db.execute(query)
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    except duckdb.NotImplementedException as error:
        # Python may know zones that the database does not.
        raise UsageError(f"the database has no time zone {period.zone}: name another by --tz") from error

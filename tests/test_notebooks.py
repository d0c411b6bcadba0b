"""The notebooks: committed bare, and they run on any lake."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import turnlake
from conftest import ROOT, Run
from lakes import Log, published
from turnlake.cli import main

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
HOSTILE = '<img src=x onerror="alert(1)">'

needs_jupyter = pytest.mark.skipif(
    not all(map(find_spec, ("altair", "ipykernel", "nbconvert"))), reason="needs the extra `notebooks`"
)


def executed(lake: Path, work: Path) -> dict[str, Executed]:
    """All notebooks as they are after a run on the lake, in a folder that knows of no lake, by their names."""
    folder = work / "far" / "away"
    shutil.copytree(ROOT / "notebooks", folder, ignore=shutil.ignore_patterns(".*"))
    machine = os.environ | {"TURNLAKE_LAKE": str(lake), "IPYTHONDIR": str(work), "JUPYTER_RUNTIME_DIR": str(work)}
    command = [
        sys.executable,
        "-m",
        "nbconvert",
        "--to=notebook",
        "--execute",
        "--inplace",
        *map(str, folder.iterdir()),
    ]
    done = subprocess.run(command, cwd=work, env=machine, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return {path.stem: Executed(json.loads(path.read_text("utf-8"))) for path in sorted(folder.iterdir())}


class Executed:
    """What a notebook shows."""

    def __init__(self, book: dict[str, Any]) -> None:
        self.outputs = [output for cell in book["cells"] for output in cell.get("outputs", ())]

    @property
    def printed(self) -> str:
        """What its cells print."""
        return "".join("".join(output["text"]) for output in self.outputs if output.get("name") == "stdout")

    def shown(self, kind: str) -> list[str]:
        """What its cells show, of one media type."""
        return ["".join(output["data"][kind]) for output in self.outputs if kind in output.get("data", {})]


@pytest.fixture(scope="module")
def sample_lake(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of the sample."""
    lake = tmp_path_factory.mktemp("sample") / "lake"
    assert main(["build", str(sample), "--lake", str(lake), "--workers", "1", "--quiet"]) == 0
    return lake


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_bare(path: Path) -> None:
    text = path.read_text("utf-8")
    book = json.loads(text)
    assert text == json.dumps(book, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    assert book["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(book["cells"], 1):
        assert (cell["id"], cell["metadata"]) == (f"cell-{number:02}", {})
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_begins_with_its_question_and_ends_pointing_onward(path: Path) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    assert re.match(r"# .+\n\n\*\*[^*]+\?\*\*\n", texts[0])
    assert texts[-1].startswith("Onward: ")
    assert "## The answer" in texts
    listed = re.findall(r"^### (marts\.\w+)$", (ROOT / "docs" / "tables.md").read_text("utf-8"), re.MULTILINE)
    assert {name for text in texts for name in re.findall(r"\bmarts\.\w+", text)} <= set(listed)


@needs_jupyter
def test_notebooks_answer_on_the_sample(sample_lake: Path, tmp_path: Path) -> None:
    books = executed(sample_lake, tmp_path)
    assert [len(book.shown("image/svg+xml")) for book in books.values()] == [2, 4, 1, 4]
    with turnlake.connect(sample_lake) as db:
        facts = db.sql("""
            select
                (select count(*) from marts.sessions) as sessions,
                (select count(*) from marts.turns) as turns,
                (select count(*) from marts.turns where state <> 'completed') as bad,
                (select rtrim(sum(cost)::varchar, '0') from marts.attempts) as cost,
                (select count(*) from marts.attempts where is_empty_max_tokens) as empty,
                (select round(sum(model_ms) / 1000)::int from marts.steps) as model_seconds,
                (select session_id from marts.turns where state = 'error') as failed
        """).fetchall()
    ((sessions, turns, bad, cost, empty, model_seconds, failed),) = facts
    look, money, reliability, latency = (book.printed for book in books.values())
    assert f"{sessions} sessions with {turns} turns" in look
    assert money.startswith(f"{cost} for ")
    assert empty == 1 and "\n1 call hit the output limit" in money
    assert f"{bad} of {turns} turns did not complete" in reliability
    assert failed in reliability and '"code":"RATE_LIMIT"' in reliability and '"kind":"max-tokens"' in reliability
    assert f"{model_seconds} s for models" in latency


@needs_jupyter
def test_notebooks_say_so_where_there_is_nothing(turnlake: Run, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert turnlake("build", str(tmp_path / "logs"), "--lake", str(tmp_path / "lake")).returncode == 0
    books = executed(tmp_path / "lake", tmp_path)
    assert [book.shown("image/svg+xml") for book in books.values()] == [[], [], [], []]
    for book in books.values():
        assert not any(output["output_type"] == "error" for output in book.outputs)
        assert re.search(r"^(No|There (is|are) no|Every|Nothing|The lake holds no) .+\.$", book.printed, re.MULTILINE)


@needs_jupyter
def test_text_of_a_log_is_shown_harmlessly(tmp_path: Path) -> None:
    log = Log(f"session-{HOSTILE}", cwd=f"/home/{HOSTILE}")
    log.turn(1, model=HOSTILE, provider=HOSTILE, tool_call_ids=["c"], tool_call_names=[HOSTILE])
    log.event("tool/call", 1, 1, call_id="c", tool_name=HOSTILE)
    log.event("tool/result", 1, 1, call_id="c")
    log.turn(2, state="error")
    log.turn(3, state=HOSTILE)
    books = executed(published(tmp_path / "lake", log), tmp_path)
    for book in books.values():
        assert HOSTILE not in "".join((*book.shown("text/html"), *book.shown("image/svg+xml")))
    assert any("&lt;img src=x" in page for page in books["03_reliability"].shown("text/html"))
    assert any("&lt;img src=x" in page for page in books["04_tools_and_latency"].shown("image/svg+xml"))

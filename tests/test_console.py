"""What people see, and that no text from a log can steer their terminal."""

from __future__ import annotations

import io
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlake import console


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


HOSTILE = "\x1b[31mred\x07 [bold]b[/bold] :smile: \u202egnp.exe\r\nnext\u2028\x9b2J\ud83d"


@given(st.text())
def test_plain_text_holds_nothing_that_steers(text: str) -> None:
    safe = console.plain(text)
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in safe)
    assert not set(safe) & set("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    safe.encode("utf-8")


def test_plain_text_shows_what_it_took_out() -> None:
    assert console.plain("a\tb\x1b[0m\n") == r"a\tb\x1b[0m\n"
    assert console.plain("a\tb\nc\r", newlines=True) == "a\\tb\nc\\r"
    assert console.plain("größe 日本 👍 [bold]") == "größe 日本 👍 [bold]"


def test_table_in_a_pipe_is_aligned_text(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("日本", 12, True), ("x", None, False), ("long name", Decimal("3.50"), None)]
    console.print_table(("name", "cost", "is_ok"), rows, title="Costs")
    assert capsys.readouterr().out == (
        "Costs\nname       cost  is_ok\n日本         12  yes\nx             –  no\nlong name  3.50  –\n"
    )


def test_table_without_rows_is_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table(("name", "cost"), [])
    assert capsys.readouterr().out == "name  cost\n"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_hostile_text_is_harmless_in_a_table(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    console.print_table(("text",), [(HOSTILE,)])
    shown = stream.getvalue()
    assert console.plain(HOSTILE) in shown
    assert "\x1b[31m" not in shown
    assert "[bold]b[/bold] :smile:" in shown


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    console.print_table(("name", "cost"), [("x", 1)])
    assert "\x1b[3" not in stream.getvalue()


def test_progress_draws_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, quiet, is_drawn in (
        (Terminal(), False, True),
        (Terminal(), True, False),
        (io.StringIO(), False, False),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        with console.progress("reading [bold]", 2, quiet=quiet) as advance:
            advance(1)
            advance(1)
        assert ("reading [bold]" in stream.getvalue()) is is_drawn


def test_json_is_ascii_and_knows_money(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_json({"cost": Decimal("0.10"), "text": "\x9bß"})
    assert capsys.readouterr().out == '{\n  "cost": "0.10",\n  "text": "\\u009b\\u00df"\n}\n'

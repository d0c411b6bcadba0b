"""The HTML report: one file that needs nothing, and text of logs that stays text, also in a real browser."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chromium import Chromium, find_chromium
from conftest import Run
from reports import Call, build, write_log
from turnlake.cli import main
from turnlake.reports.usage.bars import NARROW, WIDE, Bars, axis_of
from turnlake.reports.usage.charts import drawn
from turnlake.reports.usage.numbers import count
from turnlake.reports.usage.page import coded, show_command
from turnlake.reports.usage.period import Period

AT = "2026-09-01T10:00+00:00"
SCRIPT = "<script>console.error('ran')</script>"
IMAGE = "\"><img src=http://leak.example/a.png onerror=console.error('ran')>"
HOSTILE = (
    SCRIPT,
    f"</style></title>{SCRIPT}",
    IMAGE,
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe",
    "\x1b[31mred\x07",
    "x" * 10_000,
    "javascript:console.error('ran')",
    "datum.value + 1",
    "$bars",
)


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Chromium:
    """The browser of this machine."""
    return find_chromium(tmp_path_factory.mktemp("chromium"))


@pytest.fixture(scope="module")
def page(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the sample."""
    folder = tmp_path_factory.mktemp("page")
    lake = build(sample, folder / "lake")
    assert main(["report", "--lake", str(lake), "--out", str(folder / "r.html")]) == 0
    return folder / "r.html"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of logs whose every name is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    for number, text in enumerate(HOSTILE):
        calls = [Call(AT, text, text, 1000 + number, tool=text, state=text), Call(AT, "deepseek-official")]
        write_log(folder / "logs", f"s{number} {text}", calls, cwd=f"/{text}", name=f"s{number}")
    lake = build(folder / "logs", folder / "lake")
    assert main(["report", "--lake", str(lake), "--by", "project", "--out", str(folder / "r.html")]) == 0
    return folder / "r.html"


def test_the_page_needs_nothing_else(page: Path, hostile: Path) -> None:
    for file in (page, hostile):
        found = Page(file.read_text(encoding="utf-8"))
        assert not {"script", "link", "img", "iframe", "object", "form", "base", "a"} & set(found.elements)
        names = {name for name, _ in found.attributes}
        assert not names & {"src", "href", "srcset", "action", "xlink:href"}
        assert not [name for name in names if name.startswith("on")]
        assert "url(" not in file.read_text(encoding="utf-8")
        assert found.elements["svg"] >= 8


def test_every_section_is_there(page: Path) -> None:
    text = "\n".join(Page(page.read_text(encoding="utf-8")).texts)
    for title in ("Cost by day and model", "How turns ended", "Tokens by kind", "Cache hits", "Latency of tools",
                  "Context occupancy", "By day", "Tools", "Sessions", "Turns", "Findings"):  # fmt: skip
        assert f"\n{title}\n" in text
    assert "These totals are partial." in text
    assert "1 call hit the output limit with an empty message: 43,419 tokens" in text
    assert "ollama/qwen3-coder:30b" in text
    assert re.search(r"price table of \d{4}-\d\d-\d\d", text)
    assert re.search(r"from 22 logs, last event 2026-09-18 14:41:23 UTC, last build \d{4}", text)


def test_hostile_names_are_shown_as_text(hostile: Path) -> None:
    text = "\n".join(Page(hostile.read_text(encoding="utf-8")).texts)
    for name in (SCRIPT, IMAGE, "{{ 7 * 7 }}{% raw %}", r"\u202egnp.exe", r"\x1b[31mred\x07", "datum.value + 1"):
        assert f"/{name}" in text
    assert max(map(len, re.findall(r"x+", text))) < 100
    assert "\u202e" not in text and "\x1b" not in text


def test_the_browser_is_a_witness(chromium: Chromium, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(f"<p>{SCRIPT}<img src='http://leak.example/a.png'>")
    seen = chromium.see(tmp_path / "bad.html")
    assert len(seen.console) == 1
    assert seen.requests == ["http://leak.example/a.png"]


def test_a_browser_shows_it_without_a_word_or_a_request(chromium: Chromium, page: Path, hostile: Path) -> None:
    for file in (page, hostile):
        seen = chromium.see(file)
        assert (seen.console, seen.requests) == ([], [])
        assert Page(seen.dom).elements == Page(file.read_text(encoding="utf-8")).elements, "nothing broke out"


def test_it_has_a_light_and_a_dark_side_and_prints(chromium: Chromium, page: Path) -> None:
    light = chromium.picture(page, 1280, 1600)
    dark = chromium.picture(page, 1280, 1600, "--blink-settings=preferredColorScheme=0")
    assert light.startswith(b"\x89PNG") and light != dark
    assert len(chromium.picture(page, 400, 1600)) > 20_000
    paper = chromium.paper(page)
    assert paper.startswith(b"%PDF-") and 2 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 8


def test_drawings_are_well_formed_and_say_what_each_mark_is(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        assert ElementTree.fromstring(svg).get("aria-label")
    assert "<title>14 Sep, deepseek-official/deepseek-v4-pro: 0.0525 USD</title>" in text
    assert "<title>14 Sep: 4 calls not in the cost</title>" in text
    assert "<title>bash: median 5.2 s, p95 96.0 s, 44 calls</title>" in text


def test_a_drawing_without_a_shape_in_it_is_no_drawing() -> None:
    bars = Bars("Title", "Caption.", "calls", ["1 Sep"], {}, {}, count, ",d")
    assert bars.figure().wide is None
    assert "nothing to draw" in bars.figure().caption


def test_a_drawing_with_more_in_it_than_shapes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    svg = "<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'><script>1</script></svg>"
    monkeypatch.setattr("vl_convert.vegalite_to_svg", lambda spec, **options: svg)
    with pytest.raises(ValueError, match="element"):
        drawn("stacked", "Title", dict.fromkeys("width bars marks bins unit x_title format step top".split(), 1), 1)


def days(*texts: str) -> list[date]:
    return [date.fromisoformat(text) for text in texts]


def test_days_without_anything_stay_on_the_axis() -> None:
    everything = Period(None, None, UTC)
    axis = axis_of(days("2026-09-03", "2026-09-01"), everything)
    assert (axis.bins, axis.unit) == (["1 Sep", "2 Sep", "3 Sep"], "day")
    since, until = (datetime(2026, 8, 31, tzinfo=UTC), datetime(2026, 9, 5, tzinfo=UTC))
    axis = axis_of(days("2026-09-01"), Period(since, until, UTC))
    assert axis.bins == ["31 Aug", "1 Sep", "2 Sep", "3 Sep", "4 Sep"]


def test_a_long_time_is_drawn_by_month() -> None:
    axis = axis_of(days("2025-11-30", "2026-03-30"), Period(None, None, UTC))
    assert (axis.bins, axis.unit) == (["Nov 2025", "Dec 2025", "Jan 2026", "Feb 2026", "Mar 2026"], "month")
    assert axis_of(days("2025-11-30", "2026-03-29"), Period(None, None, UTC)).unit == "day"


def test_many_models_and_many_days_are_still_a_picture(tmp_path: Path) -> None:
    first = datetime(2026, 1, 1, 12, tzinfo=UTC)
    calls = [
        Call((first + timedelta(days=number)).isoformat(), model=f"m{number % 12:02}", tool=f"tool{number % 30}")
        for number in range(200)
    ]
    write_log(tmp_path / "logs", "s1", calls)
    columns = "id,provider,model,currency,valid_from,input,output,source,checked_on"
    prices = f"{columns}\nmine,deepseek-official,m*,USD,2020-01-01T00:00:00Z,1,2,mine,2026-01-01\n"
    (tmp_path / "prices.csv").write_text(prices)
    lake = build(tmp_path / "logs", tmp_path / "lake", "--prices", str(tmp_path / "prices.csv"))
    assert main(["report", "--lake", str(lake), "--out", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Cost by month and model" in text
    assert "5 other models" in text
    assert "The 15 tools called most, of 30." in text
    assert "after 1 card of your own" in text


@pytest.mark.parametrize(
    ("session_id", "turn", "shown"),
    [
        ("s1", 2, "turnlake show --turn 2 s1"),
        ("s1", None, "turnlake show s1"),
        ("$(reboot) 'x", None, """turnlake show '$(reboot) '"'"'x'"""),
        ("-rf", 1, "turnlake show --turn 1 -- -rf"),
        ("a\nreboot", None, r"(session a\nreboot)"),
        ("y" * 10_000, None, f"(session {'y' * 39}…{'y' * 39})"),
    ],
)
def test_commands_are_safe_to_paste(session_id: str, turn: int | None, shown: str) -> None:
    assert show_command({"session_id": session_id, "turn": turn}) == shown


def test_the_page_of_a_process_of_its_own_is_the_same(page: Path, turnlake: Run) -> None:
    done = turnlake("report", "--lake", str(page.parent / "lake"), "--format", "html")
    assert done.stdout == page.read_text(encoding="utf-8")


def test_turns_are_counted_as_turns(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "The costliest 15 of 54 turns with calls." in text and "Calls outside any turn are not in it." in text
    assert '<div class="name">Turns with calls</div><div class="amount">54</div>' in text
    assert "by when they started, also those without a call" in text
    assert "(no turn)" not in text


def test_commands_in_a_text_are_code_and_the_text_stays_text(page: Path) -> None:
    assert "<code>turnlake doctor</code>" in page.read_text(encoding="utf-8")
    assert coded("<b> `a&b` `") == "&lt;b&gt; <code>a&amp;b</code> `"


def test_the_cost_stands_right_behind_the_key(page: Path) -> None:
    heads = re.findall(r"<thead>(.*?)</thead>", page.read_text(encoding="utf-8"))
    names = [re.findall(r">([^<>]+)</th>", head) for head in heads]
    assert names[0][:3] == ["day", "cost", "calls"]
    assert [found[:4] for found in names if "to see it" in found] == [
        ["project", "last call", "cost", "calls"],
        ["turn", "state", "project", "cost"],
    ]


def test_letters_of_all_charts_are_of_one_size(page: Path) -> None:
    widths = set(re.findall(r'viewBox="0 0 ([0-9.]+) ', page.read_text(encoding="utf-8")))
    assert widths == {str(WIDE), str(NARROW)}


def test_a_page_without_calls_names_what_it_has_not(page: Path, tmp_path: Path) -> None:
    lake = page.with_name("lake")
    assert main(["report", "--lake", str(lake), "--since", "2026-11-01", "--out", str(tmp_path / "e.html")]) == 0
    text = (tmp_path / "e.html").read_text(encoding="utf-8")
    assert "<strong>No calls in this period; the last was on 2026-09-18.</strong>" in text
    assert "Turns with calls" not in text and "<svg" not in text and "<figure>" not in text
    [left_out] = re.findall(r"There is nothing to show of: (.*?)\.", text)
    assert left_out == (
        "Cost by day and model, How turns ended, Tokens by kind, Cache hits, Latency of tools, Context occupancy, "
        "By day, Tools, Sessions, Turns"
    )

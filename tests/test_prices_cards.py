"""Price files: what they may say, and what is told of those that make no sense."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from prices import own_cards, price_file
from turnlake.errors import TurnlakeError, UsageError
from turnlake.prices.files import read_cards
from turnlake.prices.folder import prices_folder
from turnlake.prices.prices import load_prices, override_file

PEAK = {"peak_factor": "2", "windows": "01:00-04:00"}


def test_built_in_cards_of_a_model_follow_each_other_without_gap_or_overlap() -> None:
    spans: dict[tuple[str, str, str], list[tuple[object, object]]] = {}
    for card in load_prices().cards:
        spans.setdefault((card.provider, card.model, card.currency), []).append((card.valid_from, card.valid_to))
    for spans_of_one in spans.values():
        ordered = sorted(spans_of_one, key=lambda span: str(span[0]))
        assert [end for _, end in ordered] == [*(start for start, _ in ordered[1:]), None]


def test_built_in_rows_say_where_they_come_from() -> None:
    prices = load_prices()
    assert {card.currency for card in prices.cards} == {"USD", "CNY"}
    assert all(row.source and row.checked_on for row in (*prices.cards, *prices.holidays))
    assert [day.day for day in prices.holidays if day.day.month == 9] == [date(2026, 9, day) for day in (25, 26, 27)]
    assert len(prices.holidays) == 33


def test_free_is_zero_for_every_bucket() -> None:
    (card,) = own_cards({"input": "free", "output": ""})
    assert card.rates == dict.fromkeys(("input", "output", "cache_read", "cache_write"), Decimal(0))


def test_a_file_may_come_from_a_spreadsheet() -> None:
    data = b"\xef\xbb\xbf" + price_file({"input": " 0.5 "}, {}, {"model": "b"}).replace(b"\n", b"\r\n")
    with pytest.raises(UsageError, match="lines 2 and 3"):
        read_cards(Path("own.csv"), data, "override")
    assert read_cards(Path("own.csv"), data.replace(b"own-1,acme,coder", b"own-1,acme,c"), "override")[
        0
    ].input == Decimal("0.5")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": ""}, "id is empty"),
        ({"output": ""}, "output is empty"),
        ({"input": "-1"}, "input '-1' is no number"),
        ({"input": "1e3"}, "is no number"),
        ({"input": "0.0000000001"}, "is no number"),
        ({"input": "NaN"}, "is no number"),
        ({"input": "free"}, "has no other rates"),
        ({"currency": "usd"}, "three capital letters"),
        ({"model": "a*b"}, "last character"),
        ({"valid_from": "2026-08-16"}, "is no instant"),
        ({"valid_from": "2026-08-16T16:00:00"}, "is no instant"),
        ({"valid_from": "2026-08-16T16:00:00Z", "valid_to": "2026-08-16T18:00:00+02:00"}, "not after"),
        ({"windows": "01:00-04:00"}, "belong together"),
        ({"peak_factor": "2"}, "belong together"),
        (PEAK | {"windows": "04:00-01:00"}, "no span"),
        (PEAK | {"windows": "1:00-4:00"}, "no span"),
        (PEAK | {"windows": "01:00-24:01"}, "no span"),
        (PEAK | {"calendar": "de"}, "calendar is one of"),
        ({"calendar": "cn"}, "only beside windows"),
        (PEAK | {"input": "0.000000001", "peak_factor": "0.5"}, "too many digits"),
        ({"checked_on": "today"}, "is no date"),
    ],
)
def test_a_row_without_sense_is_refused_with_its_line(row: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=r"own\.csv, line 3: ") as failure:
        own_cards({"model": "first"}, row)
    assert said in str(failure.value)
    assert failure.value.exit_code == 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no column 'id'"),
        (b"id,provider,model,currency,valid_from,input,output,price\n", "'price' is unknown"),
        (b"id,id,provider,model,currency,valid_from,input,output\n", "'id' is unknown or there twice"),
        (b"id,provider,model,currency,valid_from,input,output\na,b\n", "line 2: the row has not as many cells"),
        (b"id,provider,model,currency,valid_from,input,output\na,b,c,USD,,1,1,1\n", "line 2: the row has not as many"),
        (b'id,provider,model,currency,valid_from,input,output\n"a', "end of data"),
        (b"\xff", "no UTF-8"),
    ],
)
def test_a_file_without_sense_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_cards(Path("own.csv"), data, "override")


def test_two_rows_of_equal_rank_are_refused_and_both_lines_named() -> None:
    with pytest.raises(UsageError, match="lines 2 and 4 hold for the same model"):
        own_cards({}, {"model": "b"}, {"input": "3"})
    with pytest.raises(UsageError, match="lines 2 and 3 have the same id"):
        own_cards({"id": "x"}, {"id": "x", "model": "b"})
    # Another currency, another start or a pattern is another rank.
    assert len(own_cards({}, {"currency": "CNY"}, {"valid_from": "2026-09-01T00:00:00Z"}, {"model": "coder*"})) == 4


def test_the_file_named_comes_before_the_variable_and_that_before_the_lake(tmp_path: Path) -> None:
    assert override_file(tmp_path, None, {}) is None
    (tmp_path / "prices.csv").write_bytes(price_file({}))
    assert override_file(tmp_path, None, {}) == tmp_path / "prices.csv"
    assert override_file(tmp_path, None, {"TURNLAKE_PRICES": "v.csv"}) == Path("v.csv")
    assert override_file(tmp_path, Path("n.csv"), {"TURNLAKE_PRICES": "v.csv"}) == Path("n.csv")
    with pytest.raises(UsageError, match="can't be read"):
        load_prices(tmp_path / "gone.csv")


def test_inputs_change_with_file_and_currency(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    seen = [load_prices().inputs, load_prices(currency="CNY").inputs]
    for rows in ([{}], [{"input": "2"}]):
        own.write_bytes(price_file(*rows))
        seen.append(load_prices(own).inputs)
    assert len({tuple(sorted(inputs.items())) for inputs in seen}) == 4


def test_cards_are_those_of_the_checkout_or_the_wheel(tmp_path: Path, root: Path) -> None:
    assert prices_folder() == root / "data" / "prices"
    package = tmp_path / "lib" / "turnlake"
    with pytest.raises(TurnlakeError, match="install turnlake again"):
        prices_folder(package)
    (package / "prices-data").mkdir(parents=True)
    (package / "prices-data" / "deepseek.csv").touch()
    assert prices_folder(package) == package / "prices-data"

"""`turnlake prices`, the options of `model`, and the public cases about money."""

from __future__ import annotations

import csv
import io
import json
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from prices import price_file
from turnlake.cli import main

CARD = "official/deepseek-v4-"
PRICE_MAP = {
    "sample_spec": {"input_cost_per_token": 0},
    "dall-e": {"litellm_provider": "openai", "output_cost_per_image": 0.02},
    "openrouter/z-ai/glm-5": {
        "litellm_provider": "openrouter",
        "input_cost_per_token": 6e-07,
        "output_cost_per_token": 2.2e-06,
    },
    "deepseek/deepseek-v4-pro": {
        "litellm_provider": "deepseek",
        "input_cost_per_token": 1.32e-06,
        "output_cost_per_token": 3.96e-06,
        "cache_read_input_token_cost": 4.4e-08,
        "off_peak_pricing": {
            "input_cost_per_token": 6.6e-07,
            "output_cost_per_token": 1.98e-06,
            "cache_read_input_token_cost": 2.2e-08,
            "windows": [
                {"hours_utc": ["00:00-01:00", "04:00-06:00", "10:00-00:00"], "weekdays": [1, 2, 3, 4, 5]},
                {"hours_utc": "00:00-00:00", "weekdays": [6, 7]},
            ],
        },
    },
    "odd": {
        "litellm_provider": "acme",
        "input_cost_per_token": 3e-06,
        "output_cost_per_token": 3e-06,
        "off_peak_pricing": {"hours_utc": "16:30-00:30", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06},
    },
}


def answer(tmp_path: Path, query: str) -> list[dict[str, Any]]:
    """The rows that `turnlake sql` gives; in this process, which is faster."""
    with redirect_stdout(io.StringIO()) as stdout:
        assert main(["sql", query, "--json", "--lake", str(tmp_path / "data" / "lake")]) == 0
    rows: list[dict[str, Any]] = json.loads(stdout.getvalue())
    return rows


def built(run: Run, cases: Path, name: str, tmp_path: Path) -> Path:
    """Builds one case into the lake of the folder; returns the folder of its logs."""
    logs = tmp_path / "logs"
    folder = logs / "--project--" / name
    folder.mkdir(parents=True)
    for log in (cases / name).glob("session*"):
        shutil.copy(log, folder / log.name)
    done = run("build", str(logs))
    assert done.returncode == 0, done.stderr
    return logs


def test_peak_and_weekend(turnlake: Run, cases: Path, tmp_path: Path) -> None:
    expected = json.loads((cases / "S04" / "expected.json").read_text("utf-8"))
    built(turnlake, cases, "S04", tmp_path)
    rows = answer(tmp_path, "select price_window, cost::double as cost from marts.attempts order by turn")
    assert [row["price_window"] for row in rows] == expected["per_turn_band"]
    assert [row["cost"] for row in rows] == expected["per_turn_usd"]
    assert answer(tmp_path, "select sum(cost) as cost from marts.attempts") == [{"cost": "4.620000000000"}]


def test_an_unknown_model_is_unpriced_until_a_file_prices_it_and_no_log_is_read(
    turnlake: Run, cases: Path, tmp_path: Path
) -> None:
    logs = built(turnlake, cases, "S05", tmp_path)
    query = "select turn, cost::varchar as cost, price_source, total_tokens from marts.attempts order by turn"
    assert answer(tmp_path, query) == [
        {"turn": 1, "cost": None, "price_source": "unpriced", "total_tokens": 1100},
        {"turn": 2, "cost": "0.660000000000", "price_source": "builtin", "total_tokens": 1_000_000},
    ]
    shutil.rmtree(logs)
    own = tmp_path / "own.csv"
    (row,) = answer(tmp_path, "select provider, model from marts.attempts where turn = 1")
    own.write_bytes(price_file({"provider": row["provider"], "model": row["model"], "input": "1.0", "output": "10.0"}))
    assert turnlake("model", "--prices", str(own)).returncode == 0
    priced, _ = answer(tmp_path, query)
    assert (priced["cost"], priced["price_source"]) == ("0.002000000000", "override")
    # The file of the lake and the variable are found without the option.
    assert turnlake("model").returncode == 0
    assert answer(tmp_path, query)[0]["cost"] is None
    assert turnlake("model", TURNLAKE_PRICES=str(own)).returncode == 0
    assert answer(tmp_path, query)[0]["cost"] == "0.002000000000"
    shutil.copy(own, tmp_path / "data" / "lake" / "prices.csv")
    assert turnlake("model").returncode == 0
    assert answer(tmp_path, query)[0]["cost"] == "0.002000000000"
    assert turnlake("model", "--currency", "CNY").returncode == 0
    assert answer(tmp_path, "select currency from raw.settings") == [{"currency": "CNY"}]
    assert [row["cost"] for row in answer(tmp_path, query)] == [None, "4.500000000000"]


def test_compaction_is_priced_by_its_own_model(turnlake: Run, cases: Path, tmp_path: Path) -> None:
    built(turnlake, cases, "S12", tmp_path)
    rows = answer(
        tmp_path,
        "select kind, model, count(*) as calls, sum(input_tokens)::bigint as input, "
        "sum(output_tokens)::bigint as output, sum(cost) as cost from marts.attempts group by all order by kind",
    )
    compaction, model = rows
    assert (compaction["model"], compaction["calls"], compaction["input"], compaction["output"]) == (
        *("deepseek-v4-flash", 1, 500, 40),
    )
    assert (model["model"], model["calls"], model["input"], model["output"]) == ("deepseek-v4-pro", 2, 130, 13)
    assert compaction["cost"] == "0.000136400000", "500 x 0.22 + 40 x 0.66, off-peak"
    assert model["cost"] == "0.000111540000", "130 x 0.66 + 13 x 1.98, off-peak"


def test_a_price_file_without_sense_stops_a_build_before_it_reads(turnlake: Run, tmp_path: Path, sample: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_bytes(price_file({}, {}))
    done = turnlake("build", str(sample), "--prices", str(own))
    assert done.returncode == 2
    assert "lines 2 and 3" in done.stderr
    assert not (tmp_path / "data").exists()
    assert turnlake("build", str(sample), "--currency", "dollars").returncode == 2


def test_show_says_which_rate_why_and_until_when(turnlake: Run) -> None:
    done = turnlake("prices", "show", "deepseek-v4-pro", "--at", "2026-08-24T01:30:00Z", "--json")
    assert done.returncode == 0
    account, official = json.loads(done.stdout)
    assert (account["provider"], official["provider"]) == ("deepseek-account", "deepseek-official")
    assert (official["band"], official["input"], official["cache_read"]) == ("peak", "1.32", "0.044")
    assert (official["until"], official["then"]) == ("2026-08-24T04:00:00Z", "off-peak")
    assert official["why"].startswith("exact name, built in, line ")


@pytest.mark.parametrize(
    ("model", "at", "until", "then"),
    [
        # Over a weekend and over the long holiday; to another card; from a card without hours.
        ("deepseek-v4-pro", "2026-08-28T10:00:00Z", "2026-08-31T01:00:00Z", "peak"),
        ("deepseek-v4-pro", "2026-09-30T10:00:00Z", "2026-10-08T01:00:00Z", "peak"),
        ("deepseek-v4-flash", "2026-09-10T03:30:00Z", "2026-09-10T04:00:00Z", f"{CARD}flash/usd/2026-09-10"),
        ("deepseek-v4-pro", "2026-08-01T00:00:00Z", "2026-08-16T16:00:00Z", f"{CARD}pro/usd/2026-08-16"),
    ],
)  # fmt: skip
def test_show_finds_the_next_boundary(turnlake: Run, model: str, at: str, until: str, then: str) -> None:
    done = turnlake("prices", "show", model, "--provider", "deepseek-official", "--at", at, "--json")
    (rate,) = json.loads(done.stdout)
    assert (rate["until"], rate["then"]) == (until, then)


def test_show_of_a_model_without_card_says_so(turnlake: Run) -> None:
    done = turnlake("prices", "show", "deepseek-flahs")
    assert (done.returncode, done.stdout) == (1, "")
    assert "unpriced" in done.stderr and "did you mean deepseek-flash?" in done.stderr
    done = turnlake("prices", "show", "deepseek-flash", "--at", "2026-09-01T00:00:00Z")
    assert done.returncode == 1
    assert "from 2026-09-10T04:00:00Z" in done.stderr
    assert turnlake("prices", "show").returncode == 2
    assert turnlake("prices", "show", "x", "--at", "yesterday").returncode == 2


def test_import_adds_dated_rows_and_never_rewrites(turnlake: Run, tmp_path: Path) -> None:
    price_map, own = tmp_path / "map.json", tmp_path / "data" / "lake" / "prices.csv"
    price_map.write_text(json.dumps(PRICE_MAP), "utf-8")
    words = ("prices", "import", "--from-litellm", str(price_map), "--json")
    done = turnlake(*words, "--valid-from", "2026-08-01T00:00:00Z")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["file"], told["cards_added"]) == (str(own.relative_to(tmp_path)), 2)
    assert told["entries_left_out"] == {
        "no price for tokens": 1,
        "no provider": 1,
        "off-peak prices without one common factor": 1,
    }
    first = own.read_bytes()
    pro, glm = list(csv.DictReader(first.decode().splitlines()))
    assert (pro["input"], pro["peak_factor"], pro["windows"], pro["calendar"]) == (
        *("0.66", "2", "01:00-04:00 06:00-10:00", "weekdays"),
    )
    assert (glm["provider"], glm["model"], glm["input"], glm["output"]) == ("openrouter", "z-ai/glm-5", "0.6", "2.2")

    assert json.loads(turnlake(*words).stdout)["cards_added"] == 0
    assert own.read_bytes() == first
    later = PRICE_MAP | {"openrouter/z-ai/glm-5": PRICE_MAP["openrouter/z-ai/glm-5"] | {"input_cost_per_token": 7e-07}}
    price_map.write_text(json.dumps(later), "utf-8")
    refused = turnlake(*words, "--valid-from", "2026-08-01T00:00:00Z")
    assert refused.returncode == 2 and "line 3" in refused.stderr
    assert json.loads(turnlake(*words, "--valid-from", "2026-09-01T00:00:00Z").stdout)["cards_added"] == 1
    assert own.read_bytes().startswith(first)
    for at, price in (("2026-08-31T23:59:59Z", "0.6"), ("2026-09-01T00:00:00Z", "0.7")):
        (rate,) = json.loads(turnlake("prices", "show", "z-ai/glm-5", "--at", at, "--json").stdout)
        assert rate["input"] == price


def test_import_takes_only_the_names_asked_for(turnlake: Run, tmp_path: Path) -> None:
    price_map = tmp_path / "map.json"
    price_map.write_text(json.dumps(PRICE_MAP), "utf-8")
    words = ("prices", "import", "z-ai/*", "--from-litellm", str(price_map), "--out", "own.csv", "--json")
    assert json.loads(turnlake(*words).stdout)["cards_added"] == 1
    for content in ("[]", "{", ""):
        price_map.write_text(content, "utf-8")
        assert turnlake(*words).returncode == 2
    assert turnlake("prices", "import").returncode == 2

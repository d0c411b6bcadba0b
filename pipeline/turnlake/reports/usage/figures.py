"""The charts of a report: from rows to what is drawn, and what must be said beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from markupsafe import Markup

from turnlake.console import plural
from turnlake.reports.usage.bars import NARROW, WIDE, Axis, Bars, Figure
from turnlake.reports.usage.charts import drawn
from turnlake.reports.usage.numbers import count, duration, listed, money, percent, shortened
from turnlake.reports.usage.questions import Row
from turnlake.reports.usage.sheet import P95_CALLS, model_text, name_text, not_in_cost

SERIES_COLORS = tuple(f"var(--s{number})" for number in range(1, 8))
OTHER_COLOR = "var(--s8)"
STATE_COLORS = {
    "completed": "var(--s3)",
    "error": "var(--s6)",
    "max-tokens": "var(--s2)",
    "blocked": "var(--s4)",
    "aborted": "var(--s5)",
    "interrupted": "var(--s1)",
    "forked": "var(--s7)",
}
TOKEN_KINDS = {
    "input_tokens": ("input, not cached", "var(--s1)"),
    "cache_read_tokens": ("cache read", "var(--s7)"),
    "cache_write_tokens": ("cache write", "var(--s4)"),
    "output_tokens": ("output", "var(--s2)"),
}
MOST_TOOLS = 15
LATENCY_TICKS = (1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000)


def cost_figure(rows: Sequence[Row], axis: Axis, currency: str) -> Figure:
    """Cost by day, stacked by model, from the usage by day, provider and model."""
    costs = _summed((model_text(row), row["cost"] or 0) for row in rows)
    series = _colored(sorted((name for name in costs if costs[name]), key=lambda name: (-costs[name], name)))
    other = list(series)[-1] if series else ""
    dated = [row for row in rows if row["day"]]
    spent = [(axis.bin(row["day"]), model_text(row), row["cost"]) for row in dated if row["cost"]]
    lacking = _summed((axis.bin(row["day"]), not_in_cost(row)) for row in dated if not_in_cost(row))
    unknown = sorted(name for name in costs if not costs[name])
    caption = f"{currency} a {axis.unit}, by the time a call was billed."
    caption += f" ◇ this {axis.unit} has calls that are not in its cost." if lacking else ""
    caption += f" No cost is known of {listed(unknown)}." if unknown else ""
    return Bars(
        "Cost by day and model" if axis.unit == "day" else "Cost by month and model",
        caption,
        currency,
        axis.bins,
        series,
        _summed(((bin_, name if name in series else other), cost) for bin_, name, cost in spent),
        money,
        ",.4~f",
        marks={bin_: f"{plural(number, 'call')} not in the cost" for bin_, number in lacking.items()},
    ).figure()


def ends_figure(rows: Sequence[Row], axis: Axis) -> Figure:
    """How turns ended, by the day they started, from the answer of `turn_ends`."""
    found = {row["state"] for row in rows}
    order = [state for state in STATE_COLORS if state in found] + sorted(found - STATE_COLORS.keys())
    series = {name_text(state, "unknown"): STATE_COLORS.get(state, OTHER_COLOR) for state in order}
    amounts = _summed(
        ((axis.bin(row["day"]), name_text(row["state"], "unknown")), row["turn_count"]) for row in rows if row["day"]
    )
    caption = (
        f"Turns a {axis.unit}, by when they started, also those without a call; a dangling turn has no end in its log."
    )
    return Bars("How turns ended", caption, "turns", axis.bins, series, amounts, count, ",d", step=1).figure()


def tokens_figure(rows: Sequence[Row], axis: Axis) -> Figure:
    """Tokens by kind, from the usage by day."""
    amounts = _summed(
        ((axis.bin(row["day"]), label), row[name])
        for row in rows
        for name, (label, _) in TOKEN_KINDS.items()
        if row["day"] and row[name]
    )
    found = {label for _, label in amounts}
    series = {label: color for label, color in TOKEN_KINDS.values() if label in found}
    caption = f"Tokens a {axis.unit}; output holds the reasoning. Calls of unknown usage are not in it."
    return Bars("Tokens by kind", caption, "tokens", axis.bins, series, amounts, count, "~s", step=1).figure()


def cached_figure(rows: Sequence[Row], axis: Axis) -> Figure:
    """What part of the prompt came from the cache, from the usage by day."""
    told = [row for row in rows if row["day"] and row["cache_hit_ratio"] is not None]
    read = _summed((axis.bin(row["day"]), row["cache_read_tokens"]) for row in told)
    prompts = ("input_tokens", "cache_read_tokens", "cache_write_tokens")
    asked = _summed((axis.bin(row["day"]), sum(row[name] or 0 for name in prompts)) for row in told)
    amounts = {(bin_, "cached"): read[bin_] / asked[bin_] for bin_ in read}
    caption = f"Part of the prompt tokens of a {axis.unit} that the cache served; no bar where no call tells."
    series = {"cached": "var(--s7)"}
    return Bars("Cache hits", caption, "of the prompt", axis.bins, series, amounts, percent, ".0%", top=1).figure()


def context_figure(rows: Sequence[Row]) -> Figure:
    """How full the context window of calls was, from the answer of `context`."""
    known = [row for row in rows if row["tenth"] is not None]
    unknown = sum(row["attempt_count"] for row in rows if row["tenth"] is None)
    fullest = max((row["max_ratio"] for row in known), default=None)
    bins = [f"{10 * tenth}–{10 * tenth + 10}" for tenth in range(10)] + ["over"] * (fullest is not None and fullest > 1)
    caption = "Calls by the part of the model's context window that their prompt fills."
    caption += f" The fullest: {percent(fullest)}." if known else ""
    caption += f" Not known of {plural(unknown, 'call')}." if unknown else ""
    calls = _summed((model_text(row), row["attempt_count"]) for row in known)
    series = _colored(sorted(calls, key=lambda name: (-calls[name], name)))
    other = list(series)[-1] if series else ""
    amounts = _summed(
        ((bins[row["tenth"]], name if (name := model_text(row)) in series else other), row["attempt_count"])
        for row in known
    )
    title, x_title = "Context occupancy", "part of the window, %"
    return Bars(title, caption, "calls", bins, series, amounts, count, ",d", step=1, x_title=x_title).figure()


def latency_figure(tools: Sequence[Row]) -> Figure:
    """How long tools run, from the answer of `tools`, the most called first."""
    measured = [row for row in tools if row["measured_count"]]
    if not measured:
        return Figure("Latency of tools", "No call of a tool has a measured time.")
    caption = (
        "Time of a call, waits for people left out: ● median, ○ p95, logarithmic; behind the name, measured calls."
    )
    caption += f" Faint: a p95 of fewer than {P95_CALLS} calls says little."
    if len(measured) > MOST_TOOLS:
        caption += f" The {MOST_TOOLS} tools called most, of {len(measured)}."
    top = max(max(row["p95_ms"], 1) for row in measured[:MOST_TOOLS])
    high = next((tick for tick in LATENCY_TICKS[1:] if tick >= top), top)
    ticks = [tick for tick in LATENCY_TICKS if tick <= high]

    def draw(width: int, name_length: int, every: int) -> Markup:
        values = [_latency(row, number, name_length) for number, row in enumerate(measured[:MOST_TOOLS])]
        facts = {"width": width, "tools": values, "domain": [1, high], "ticks": ticks[::every]}
        return drawn("latency", "Latency of tools", facts, width)

    return Figure("Latency of tools", caption, (), draw(WIDE, 24, 1), draw(NARROW, 11, 2))


def _latency(row: Row, number: int, name_length: int) -> dict[str, Any]:
    """What is drawn of a tool; its number tells names apart that are cut to the same."""
    name, calls = name_text(row["tool_name"], "(unknown tool)"), row["measured_count"]
    times = f"median {duration(row['p50_ms'])}, p95 {duration(row['p95_ms'])}"
    # A logarithm knows no 0.
    return {
        "number": number,
        "label": f"{shortened(name, name_length)} · {count(calls)}",
        "p50": max(row["p50_ms"], 1),
        "p95": max(row["p95_ms"], 1),
        "opacity": 1 if calls >= P95_CALLS else 0.35,
        "about": f"{name}: {times}, {plural(calls, 'call')}",
    }


def _colored(names: Sequence[str]) -> dict[str, str]:
    """Each name with a colour; where they are more than the colours, the last stands for all others."""
    few = dict(zip(names, SERIES_COLORS, strict=False))
    more = len(names) - len(few)
    return few | {plural(more, "other model"): OTHER_COLOR} if more else few


def _summed(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """The sum for each key, in the order of their first appearance."""
    sums: defaultdict[Any, Decimal | int] = defaultdict(int)
    for key, amount in pairs:
        sums[key] += amount
    return dict(sums)

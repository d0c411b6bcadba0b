"""A chart of stacked bars in two widths, and the days or months along the bottom of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from markupsafe import Markup

from turnlake.reports.usage.charts import drawn
from turnlake.reports.usage.period import Period

# Widths in CSS pixels, axes and all: for a screen or paper, and for a phone.
WIDE, NARROW = 560, 330
# Longer spans are drawn by month: a bar narrower than four pixels is no bar.
MOST_DAYS = 120
# A chart of few bars is narrower: one bar as wide as the page would look like more than it is.
WIDEST_BAR = 80
FEWEST_BARS = 3
# Room for an axis beside the bars.
AXIS = 60


@dataclass(frozen=True)
class Figure:
    """A chart in two widths, None where nothing was there to draw. `legend` are pairs of a CSS colour and a name."""

    title: str
    caption: str
    legend: Sequence[tuple[str, str]] = ()
    wide: Markup | None = None
    narrow: Markup | None = None


@dataclass(frozen=True)
class Axis:
    """All days or months from that of `first` to that of `last`: those without anything are seen to be empty."""

    first: date
    last: date
    is_monthly: bool

    def bin(self, day: date) -> str:
        """What the bar of a day is called."""
        return day.strftime("%b %Y") if self.is_monthly else f"{day.day} {day:%b}"

    @property
    def bins(self) -> list[str]:
        """The bars in order."""
        days = (self.first + timedelta(days=number) for number in range((self.last - self.first).days + 1))
        return list(dict.fromkeys(map(self.bin, days)))

    @property
    def unit(self) -> str:
        """What a bar is of."""
        return "month" if self.is_monthly else "day"


def axis_of(days: Sequence[date], period: Period) -> Axis:
    """The axis for those days. It covers all of a short period."""
    first, last = min(days), max(days)
    if period.since and period.until:
        start = period.since.astimezone(period.tz).date()
        end = (period.until.astimezone(period.tz) - timedelta(microseconds=1)).date()
        if (end - start).days < MOST_DAYS:
            first, last = min(start, first), max(end, last)
    return Axis(first, last, is_monthly=(last - first).days >= MOST_DAYS)


@dataclass(frozen=True)
class Bars:
    """What is drawn: `amounts` by bar and series, in `unit`s; `series` with their colours, the lowest first.

    `shown` writes an amount, `format` is that of the axis in the notation of d3. A bar in `marks` gets a diamond.
    """

    title: str
    caption: str
    unit: str
    bins: Sequence[str]
    series: Mapping[str, str]
    amounts: Mapping[tuple[str, str], Any]
    shown: Callable[[Any], str]
    format: str
    step: int | None = None
    top: float | None = None
    x_title: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)

    def figure(self) -> Figure:
        """The chart."""
        if not self.amounts:
            return Figure(self.title, f"{self.caption} There is nothing to draw.")
        legend = [(color, name) for name, color in self.series.items()]
        return Figure(self.title, self.caption, legend, self._drawn(WIDE), self._drawn(NARROW))

    def _drawn(self, canvas: int) -> Markup:
        names = ("unit", "bins", "format", "step", "top", "x_title")
        facts = {name: getattr(self, name) for name in names}
        width = min(canvas, WIDEST_BAR * max(len(self.bins), FEWEST_BARS) + AXIS)
        values = facts | {"width": width, "bars": self._parts(), "marks": self._marks()}
        return drawn("stacked", self.title, values, canvas)

    def _parts(self) -> list[dict[str, Any]]:
        ranks = {name: rank for rank, name in enumerate(self.series)}
        return [
            {
                "bin": bin_,
                "amount": float(amount),
                "rank": ranks[name],
                "color": self.series[name],
                "about": f"{bin_}, {name}: {self.shown(amount)} {self.unit}",
            }
            for (bin_, name), amount in self.amounts.items()
        ]

    def _marks(self) -> list[dict[str, Any]]:
        heights: defaultdict[str, float] = defaultdict(float)
        for (bin_, _), amount in self.amounts.items():
            heights[bin_] += float(amount)
        return [
            {"bin": bin_, "amount": heights[bin_], "about": f"{bin_}: {about}"} for bin_, about in self.marks.items()
        ]

"""Retries of provider calls: which step they belong to, and how they count (INV-34)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnlake.format.breach import Breach, warning
from turnlake.format.legacy import RETRY_ID
from turnlake.format.values import Object, is_count, name_of

# Turn, step, provider and policy: what a series of retries has in common.
Chain = tuple[str, ...]


class Retries:
    """The series of retries of one log."""

    def __init__(self) -> None:
        # Per chain the id its retries have, if they have one, and the number of the last.
        self._chains: dict[Chain, tuple[str | None, int]] = {}
        self._owners: dict[str, Chain] = {}
        self._announced: set[tuple[str | None, ...]] = set()

    def announce(self, data: Object, turn: int | None, step: int, provider: Any) -> Iterator[Breach]:
        """An llm/retry; turn is the open one, step the open or last one of it, provider that of the header in force."""
        self._announced.add(_attempt(data))
        place = (data.get("turn"), data.get("step"))
        if turn is None or place != (turn, step):
            yield warning("INV-34", f"a retry of turn {place[0]}, step {place[1]} stands in {turn}, {step}")
        elif provider is not None and data.get("provider") != provider:
            yield warning("INV-34", "a retry names another provider than the request header in force")
        elif fault := self._fault_of_chain(data):
            yield warning("INV-34", fault)

    def _fault_of_chain(self, data: Object) -> str | None:
        chain = tuple(name_of(data.get(key)) for key in ("turn", "step", "provider", "policyKey"))
        retry_id, number = _id(data), data.get("retry")
        known, last = self._chains.get(chain, (retry_id, 0))
        self._chains[chain] = (known, int(number) if is_count(number) else last + 1)
        if not is_count(number) or number != last + 1:
            return f"retry {number} follows retry {last} of its series"
        if retry_id != known or (retry_id is not None and self._owners.setdefault(retry_id, chain) != chain):
            return "a series of retries has two ids, or shares its id with another"
        return None

    def start(self, data: Object) -> Iterator[Breach]:
        """An llm/retry-started."""
        try:
            self._announced.remove(_attempt(data))
        except KeyError:
            yield warning("INV-34", f"retry {data.get('retry')} starts, and no retry like it was announced")


def _attempt(data: Object) -> tuple[str | None, ...]:
    """What announcement and start of one retry have in common."""
    return (_id(data), *(name_of(data.get(key)) for key in ("turn", "step", "retry")))


def _id(data: Object) -> str | None:
    """The id of a series; None where the oldest logs have none and each event was given its own."""
    retry_id = data.get("retryId")
    return None if retry_id is None or str(retry_id).startswith(RETRY_ID) else name_of(retry_id)

"""What a usage says (spec section 8.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

from turnlake.format.values import Object, is_count

# A number above this is no number of tokens.
MOST = 2**40
_COUNTED = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
_NUMBERS = (*_COUNTED, "totalTokens")


class Tokens(NamedTuple):
    """The tokens of a call; None is unknown, or not reported."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None

    @property
    def total(self) -> int | None:
        """Prompt and output, the cache included; None where one of both is unknown."""
        if self.input is None or self.output is None:
            return None
        return self.input + self.output + (self.cache_read or 0) + (self.cache_write or 0)


def stated(usage: Any) -> Object | None:
    """The usage, where it says something of one of its buckets, be it no number; else None."""
    if not isinstance(usage, dict):
        return None
    says_something = any(usage.get(name) is not None for name in _COUNTED) or not _is_sound(usage)
    return usage if says_something else None


def tokens_of(usage: Object | None) -> Tokens:
    """The tokens of a usage; all unknown where one of its numbers is none."""
    if usage is None or not _is_sound(usage):
        return Tokens()
    return Tokens(*[None if number is None else int(number) for number in map(usage.get, _COUNTED)])


def _is_sound(usage: Object) -> bool:
    for number in map(usage.get, _NUMBERS):
        if number is not None and not (is_count(number) and number <= MOST):
            return False
    return True

"""Token counts of a session's calls, as a provider with a prompt cache would report them."""

from __future__ import annotations

from copy import copy

from turnlake.sample.shapes import EMBEDDED_STREAMS, NAMED_SOURCES, Json

# Providers cache whole units of the prompt.
CACHE_UNIT = 64


class Meter:
    """The size of the context in tokens, and how much of it the provider has in its cache."""

    def __init__(self, version: int, *, has_cache: bool = True) -> None:
        self.version = version
        self.has_cache = has_cache
        self.context = 0
        self._cached = 0

    def add(self, tokens: int) -> None:
        """Something joined the context: a prompt, a result."""
        self.context += tokens

    def call(self, output: int, reasoning: int) -> Json:
        """The usage of one call with the context of now; its answer joins the context."""
        read = min(self._cached, self.context // CACHE_UNIT * CACHE_UNIT) if self.has_cache else 0
        usage = self._report(self.context - read, output, read, reasoning)
        self._cached = self.context // CACHE_UNIT * CACHE_UNIT
        self.context += output - reasoning
        return usage

    def shrink(self, tokens: int) -> None:
        """A compaction left `tokens` of the context: what follows the system prompt is new to the cache."""
        self.context = tokens
        self._cached = 0

    def fork(self) -> Meter:
        """A meter that goes on from here by itself."""
        return copy(self)

    def _report(self, uncached: int, output: int, read: int, reasoning: int) -> Json:
        usage: Json = {"inputTokens": uncached, "outputTokens": output}
        if self.has_cache:
            usage["cacheReadTokens"] = read
            if self.version >= NAMED_SOURCES:
                usage["cacheWriteTokens"] = 0
        if reasoning:
            usage["reasoningTokens"] = reasoning
        # The products of versions 0 and 1 did not sum up.
        if self.version >= EMBEDDED_STREAMS:
            usage["totalTokens"] = uncached + read + output
        return usage

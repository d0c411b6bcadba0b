"""Calls of the model as the harness would log them: answers, cuts, failures, retries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from turnlake.sample.log import Log
from turnlake.sample.setting import Model, Prompt
from turnlake.sample.shapes import Json
from turnlake.sample.streams import Block, Stream, open_stream
from turnlake.sample.usage import Meter

# Errors after which the harness asks again, in the form in which a retry names its policy.
RETRY_POLICY = '["normal",5,["EMPTY_RESPONSE","RATE_LIMIT","SERVER","TIMEOUT","TRANSPORT"],500,10000,0.1]'
MAX_RETRIES = 5


class Caller:
    """The side of a session that talks to the provider, within the turn and step of now."""

    def __init__(self, log: Log, model: Model, prompt: Prompt, rng: Random) -> None:
        self.log = log
        self.model = model
        self.prompt = prompt
        self.turn = 0
        self.step = 0
        self.meter = Meter(log.header.version, has_cache=model.has_cache)
        self.meter.add(prompt.tokens)
        self._rng = rng

    def new_id(self) -> str:
        """A fresh id in the form of a UUID."""
        return new_id(self._rng)

    def answer(self, blocks: Sequence[Block]) -> None:
        """The model answers; with tool calls among the blocks the step goes on."""
        has_calls = any(block.kind == "tool-call" for block in blocks)
        self._settle(self._stream(blocks), blocks, "tool-calls" if has_calls else "stop", blocks)

    def cut_off(self, blocks: Sequence[Block], output: int | None = None) -> None:
        """The answer hits the output limit: a tool call in it is dropped, so that nothing may be left.

        `output` is the number of tokens billed where the provider sent less than it made.
        """
        kept = [block for block in blocks if block.kind != "tool-call"]
        self._settle(self._stream(blocks, is_whole=False), blocks, "max-tokens", kept, output)

    def interrupt(self, blocks: Sequence[Block]) -> None:
        """The stream is cancelled after some visible text: no usage, no finish."""
        stream = self._stream(blocks, is_whole=False)
        self.log.wait(self._rng.randrange(1, 30))
        stream.settle({"message": self._message(blocks), "interrupted": True})
        self.meter.add(sum(len(block.tokens) for block in blocks))

    def fail(self, failure: Json, blocks: Sequence[Block] = (), *, is_metered: bool = False) -> None:
        """The call fails, perhaps after a part of its answer, perhaps billed."""
        stream = self._stream(blocks, is_whole=False)
        if is_metered:
            stream.chunk({"type": "usage", "usage": self.meter.fork().call(*_token_counts(blocks))})
        stream.chunk({"type": "finish", "reason": {"kind": "error", "failure": failure}})
        stream.fail()

    def crash(self, blocks: Sequence[Block]) -> None:
        """The process dies in the middle of the stream."""
        self._stream(blocks, is_whole=False)

    def retry(self, retry_id: str, number: int, failure: Json) -> None:
        """The harness waits and asks again, for the `number`-th time in this step."""
        delay = 500 * 2 ** (number - 1) + self._rng.randrange(1, 1000) / 1024
        policy: Json = {"mode": "normal", "policyKey": RETRY_POLICY, "retry": number, "maxRetries": MAX_RETRIES}
        chain = {"retryId": retry_id, **self._place()}
        data = {**chain, "provider": self.model.provider, **policy, "delayMs": delay, "failure": failure}
        self.log.event("llm/retry", data)
        self.log.wait(int(delay) + 1)
        self.log.event("llm/retry-started", {**chain, "retry": number})

    def _stream(self, blocks: Sequence[Block], *, is_whole: bool = True) -> Stream:
        self.log.wait(self._rng.randrange(250, 2500))
        stream = open_stream(self.log, self.turn, self.step)
        for index, block in enumerate(blocks):
            stream.chunk({"type": "block-start", "index": index, "blockType": block.kind})
            for tokens in _runs(block.tokens, self._rng):
                self.log.wait(self._rng.choice(self.model.pace))
                stream.run(block, index, tokens, self._rng.choices(self.model.pace, k=len(tokens) - 1))
            if is_whole or block is not blocks[-1]:
                stream.chunk({"type": "block-end", "index": index, "block": block.content()})
        return stream

    def _settle(
        self, stream: Stream, blocks: Sequence[Block], finish: str, kept: Sequence[Block], output: int | None = None
    ) -> None:
        sent, reasoning = _token_counts(blocks)
        usage = self.meter.call(output or sent, reasoning)
        stream.chunk({"type": "usage", "usage": usage})
        stream.chunk({"type": "finish", "reason": {"kind": finish}})
        self.log.wait(self._rng.randrange(1, 5))
        stream.settle({"message": self._message(kept), "usage": usage})

    def _message(self, blocks: Sequence[Block]) -> Json:
        source = {"kind": "model", "provider": self.model.provider, "model": self.model.name}
        content = [block.content() for block in blocks]
        return {"role": "assistant", "content": content, "source": source, "id": self.new_id()}

    def _place(self) -> Json:
        return {"turn": self.turn, "step": self.step}


def new_id(rng: Random) -> str:
    """A random UUID of version 4."""
    text = f"{rng.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def _runs(tokens: Sequence[str], rng: Random) -> Iterator[Sequence[str]]:
    """Tokens in runs as long as the writer packs them: 20 to 300, the last of a block shorter."""
    start = 0
    while start < len(tokens):
        end = start + rng.randrange(20, 301)
        yield tokens[start:end]
        start = end


def _token_counts(blocks: Sequence[Block]) -> tuple[int, int]:
    reasoning = sum(len(block.tokens) for block in blocks if block.kind == "reasoning")
    return sum(len(block.tokens) for block in blocks), reasoning

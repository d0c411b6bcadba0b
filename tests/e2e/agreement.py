"""What has to agree after every scenario: script, requests, log, lake."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import monotonic, sleep

from e2e.follower import Follower, Rows
from e2e.harness import PATIENCE, Harness
from e2e.model import Model
from e2e.script import Item
from e2e.transcript import messages, said, sent
from turnlake import project_attempt_request
from turnlake.messages.attempts import attempts

BILLS = "input_tokens, output_tokens, cache_read_tokens, cache_write_tokens"
ATTEMPTS = f"select {BILLS} from marts.attempts order by turn, step, attempt"
DAYS = f"select {', '.join(f'sum({name})' for name in BILLS.split(', '))} from marts.usage_daily"
MESSAGES = """
    select messages.content, messages.role, events.call_id
    from marts.messages
    join marts.sessions using (session_id)
    join raw.logs on logs.session_id = messages.session_id and logs.superseded_by is null
    join raw.events on events.log_id = logs.log_id and events.seq = messages.seq
    order by messages.position
"""


def check(harness: Harness, model: Model, follower: Follower) -> None:
    """Everything that holds whatever was said. The harness is the one that wrote last."""
    model.check_is_done()
    log = harness.log()
    # That a turn is still open after a crash is advisory.
    assert (log.verdict.verdict, [found for found in log.findings if found.severity != "advisory"]) == ("clean", [])
    assert model.requests == list(sent(log.events))
    # INV-48: what each call was asked is what the projection says it was.
    assert model.requests == [said(project_attempt_request(log, attempt).messages) for attempt in attempts(log)]
    assert model.uploaded == {event["seq"]: event for event in log.events if event["seq"] in model.uploaded}
    assert follower.query(ATTEMPTS) == model.bills
    assert follower.query(DAYS) == [tuple(_sum(bucket) for bucket in zip(*model.bills, strict=True))]
    assert in_lake(follower) == said(messages(log.events))
    assert follower.query("select count(*) from marts.unmetered_calls") == [(model.asides,)]


def in_lake(follower: Follower) -> list[Item]:
    """What marts.messages holds, in order."""
    rows = follower.query(MESSAGES)
    return said({"role": role, "content": json.loads(content), "toolCallId": call} for content, role, call in rows)


def turns(follower: Follower) -> Rows:
    """State of each turn, and whether its end was written after a crash."""
    return follower.query("select state, is_repaired from marts.turns order by turn")


def tools(follower: Follower) -> Rows:
    """Each tool call: its id, what came of it, whether others ran beside it."""
    order = "turn, step, call_seq nulls last, call_id"
    return follower.query(f"select call_id, outcome, is_parallel from marts.tool_calls order by {order}")


def wait(until: Callable[[], bool], what: str) -> None:
    """Waits for something that a process or the lake has to show."""
    deadline = monotonic() + PATIENCE
    while not until():
        assert monotonic() < deadline, f"waited in vain for {what}"
        sleep(0.1)


def _sum(bucket: tuple[int | None, ...]) -> int | None:
    known = [tokens for tokens in bucket if tokens is not None]
    return sum(known) if known else None

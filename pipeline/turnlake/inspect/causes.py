"""Why a turn did not run to its end: the names of the causes, what each is told by, and what it means."""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """What a cause says: in a few words, which evidence the log lacks for it, what that means for the reader."""

    headline: str
    missing: tuple[str, ...]
    meaning: str


CAUSES = {
    "claim_rejected": Cause(
        "the check before the first step refused it",
        ("step/start",),
        "The input was taken from the inbox, then a hook or policy rejected it. No request was sent, nothing was "
        "billed, and the input never became a message: the model will not see it later either.",
    ),
    "step_rejected": Cause(
        "the check before its next step refused it",
        ("step/start of the next step",),
        "The steps before it are complete and count; the refused step left no event, and no request was sent for it.",
    ),
    "claim_unfinished": Cause(
        "it stopped before its first step",
        ("step/start",),
        "The process stopped, or was stopped, between taking the input and the first step. No request was sent.",
    ),
    "request_not_dispatched": Cause(
        "its request was never dispatched",
        ("request/header", "any answer"),
        "The step was opened, but the log holds no request header before its end, and the harness writes one before "
        "the first request. So nothing reached the provider.",
    ),
    "request_unanswered": Cause(
        "its request has no answer in the log",
        ("the first chunk of an answer",),
        "The process stopped between the start of the step and the first token. Whether the request reached the "
        "provider, and was billed, can't be told from the log.",
    ),
    "answer_not_recorded": Cause(
        "it stopped while a request was open",
        ("assistant/message or assistant/attempt",),
        "Since format 2 an answer is written only when it is complete. So the request may never have been sent, or the "
        "process died in the middle of its answer: the log can't tell. It may have been billed; its usage is unknown.",
    ),
    "retry_not_started": Cause(
        "it stopped while it waited to ask again",
        ("llm/retry-started",),
        "A call had failed and the next one was due after a delay. It was never sent.",
    ),
    "compaction_unfinished": Cause(
        "it stopped while what the model sees was being summarised",
        ("compaction/end",),
        "The summary never took effect: the model still sees all that stood before. The call that was to write it "
        "may have been billed.",
    ),
    "stream_broke": Cause(
        "the answer broke off",
        ("finish of the stream", "assistant/message"),
        "The provider, the network or the process stopped in the middle of an answer. What had arrived is in the log "
        "but never became a message: the model does not see it. The tokens may have been billed.",
    ),
    "call_without_result": Cause(
        "a tool call has no result",
        ("tool/result",),
        "The process stopped while tools were due. What a started call did is unknown, it may have had its effect; "
        "one that was never started did nothing. Verify before asking for it again.",
    ),
    "step_not_closed": Cause(
        "its step was not closed",
        ("step/end", "turn/end"),
        "All that was asked is answered; the process stopped before the next request or the end. Nothing is in doubt.",
    ),
    "turn_not_closed": Cause(
        "its step closed but the turn did not",
        ("step/start of the next step, or turn/end",),
        "The process stopped between two steps, or right before the end. All that was asked is answered.",
    ),
    "tools_failed": Cause(
        "the loop failed while tools ran",
        ("tool/result",),
        "The harness gave up on the step while calls had no result. What a started call did is unknown.",
    ),
    "failed_before_request": Cause(
        "it failed before any request",
        ("any call of a model",),
        "Something before the request failed, in the set-up of the provider or in the loop. Nothing was billed.",
    ),
    "provider_setup": Cause(
        "the provider could not be used as set up",
        ("assistant/message",),
        "Credentials or the choice of provider are at fault: asking again changes nothing until they are mended.",
    ),
    "quota_exhausted": Cause(
        "the account's quota is used up",
        ("assistant/message",),
        "The provider refused for want of balance or quota: asking again changes nothing until that is raised.",
    ),
    "context_overflow": Cause(
        "the messages no longer fit the model's window",
        ("assistant/message",),
        "The provider refused the request for its length, and shortening it did not help or was not tried.",
    ),
    "retries_exhausted": Cause(
        "every retry failed",
        ("assistant/message",),
        "The harness asked again as often as it may. Each call is a row of marts.attempts and may have been billed.",
    ),
    "failed_after_retries": Cause(
        "it failed again after a retry",
        ("assistant/message",),
        "The harness asked again, but gave up before the number of retries it allows itself. Each call is a row of "
        "marts.attempts and may have been billed.",
    ),
    "provider_error": Cause(
        "a call of the model failed",
        ("assistant/message",),
        "The provider or the connection failed, and the harness did not ask again. What had arrived of the answer is "
        "not seen by the model.",
    ),
    "max_tokens_empty": Cause(
        "the output limit was hit before anything was said",
        ("content of the message",),
        "All output tokens went into reasoning or an unfinished tool call. The message is empty, the model sees "
        "nothing of it, and all of it is billed. Raise the limit (the notes say which) or ask for less.",
    ),
    "max_tokens": Cause(
        "an answer was cut at the output limit",
        ("the rest of the answer",),
        "The answer is cut off, tool calls in it were dropped. The model sees what is there. Raise the limit (the "
        "notes say which) or ask for less.",
    ),
    "cancelled": Cause(
        "it was cancelled",
        (),
        "Somebody or something stopped it on purpose; the harness closed step and turn itself.",
    ),
    "forked": Cause(
        "a fork was made while it was open",
        (),
        "The fork closed the turn for itself; in the session it was forked from the turn may have gone on.",
    ),
    "unknown_end": Cause(
        "it ended for a reason that is not known here",
        (),
        "The reason is shown as written; a newer harness or a plugin may have written it.",
    ),
}
PHASES = {
    "claim": "before its first step",
    "request": "while it waited for an answer",
    "streaming": "while an answer came in",
    "tools": "while tools were due",
    "stopping": "when all that was asked had been answered",
}
# Failures that no repetition mends.
SETUP_CODES = ("NO_ADAPTER", "MISSING_CREDENTIAL", "INVALID_CREDENTIAL", "AUTH")

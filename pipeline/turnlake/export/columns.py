"""What a metrics-only export does with each column of each table.

A column that is not named here is left out, and a test fails. Only numbers, flags and instants are kept as they
are, and texts that turnlake itself writes; of a text that comes out of a log only listed words are.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from turnlake.export import words


class Action(Enum):
    """KEEP a number, a flag, an instant. OWN: keep a text that is turnlake's. HASH all, or DROP the column.

    ATTEMPT hashes the session in an attempt's id and keeps the numbers behind it.
    """

    KEEP = "keep"
    OWN = "own"
    HASH = "hash"
    ATTEMPT = "attempt"
    DROP = "drop"


# A set of words: keep these, hash anything else.
Rule = Action | frozenset[str]
Words = dict[str, frozenset[str]]


def _table(
    *, keep: str, own: str = "", hashed: str = "", attempt: str = "", drop: str = "", known: Words | None = None
) -> dict[str, Rule]:
    named = {Action.KEEP: keep, Action.OWN: own, Action.HASH: hashed, Action.ATTEMPT: attempt, Action.DROP: drop}
    rules: dict[str, Rule] = {column: action for action, columns in named.items() for column in columns.split()}
    return {**rules, **(known or {})}


_USAGE = "input_tokens output_tokens cache_read_tokens cache_write_tokens reasoning_tokens"
_SUMS = f"{_USAGE} total_tokens cost unknown_usage_attempt_count unpriced_attempt_count"
_TREE = " ".join(f"tree_{name}" for name in ("session_count", *_SUMS.split()))
_RAW_USAGE = f"{_USAGE} reported_total_tokens"
_ROUTE: Words = {"provider": words.PROVIDERS, "model": words.MODELS}
_FAILURE: Words = {
    "error_name": words.ERROR_NAMES,
    "error_code": words.ERROR_CODES,
    "finish_kind": words.FINISH_KINDS,
}
_REASON: Words = {"reason_kind": words.TURN_STATES, "reason_detail": words.ABORTED_BY}
_MESSAGE: Words = {"role": words.ROLES, "role_normalised": words.ROLES, "source_kind": words.SOURCE_KINDS}

_LOGS = _table(
    keep="generation format_version created_at_ms delegation_depth is_seeded inherited_event_count bytes decoded_bytes "
    "line_count event_count accepted_event_count dropped_record_count unread_line_count verdict_line is_torn "
    "torn_bytes is_read has_unknown_required_type first_event_ms last_event_ms clock_anomaly_count is_missing "
    "parser_version",
    own="container dialect verdict verdict_reason superseded_why",
    # A log_id is a bare hash of source and path, which a guess could confirm.
    hashed="log_id source machine path session_id header_id cwd parent_session_id agent_preset superseded_by",
    # A proof holds bare hashes of messages.
    drop="file_name header proof",
    known={"origin": words.ORIGINS},
)

_EVENTS = _table(
    keep="branch seq line byte_offset time_ms replace_start_seq replace_end_seq source_ranges is_ignorable "
    "is_known_type is_provisional turn step arguments_is_json is_error content_block_count reasoning_block_count "
    "content_chars context_window error_status is_interrupted chunk_count first_token_ms last_token_ms last_chunk_ms "
    f"shadowed_token_count retry delay_ms {_RAW_USAGE}",
    own="surface_op normalised_from usage_place",
    hashed="log_id message_id source_name call_id parent_call_id tool_call_ids error_request_id related_id "
    "inserted_ids child_id",
    drop="payload stream sql_payload raw_line arguments tool_call_arguments error_message invalid_usage label",
    known={
        "type": words.EVENT_TYPES,
        "role": words.ROLES,
        "source_kind": words.SOURCE_KINDS,
        "tool_name": words.TOOLS,
        "tool_call_names": words.TOOLS,
        "outcome": words.OUTCOMES,
        **_REASON,
        **_ROUTE,
        **_FAILURE,
    },
)

_CHUNK_RUNS = _table(
    keep="branch seq line byte_offset turn step block_index chunk_count time_ms last_time_ms first_token_ms "
    f"error_status is_provisional {_RAW_USAGE}",
    own="form",
    hashed="log_id call_id error_request_id",
    drop="payload error_message invalid_usage raw_line",
    known={"chunk_type": words.CHUNK_TYPES, "tool_name": words.TOOLS, **_FAILURE},
)

_SESSIONS = _table(
    keep="format_version is_exact created_at first_event_at last_event_at delegation_depth inherited_event_count "
    "orphan_prefix_event_count event_count turn_count step_count attempt_count tool_call_count human_prompt_count "
    f"clock_anomaly_count {_SUMS} {_TREE}",
    own="dialect verdict inexact_reason",
    hashed="session_id source machine project cwd agent_preset parent_session_id root_session_id",
    drop="title",
    known={"origin": words.ORIGINS},
)

_TURNS = _table(
    keep="turn queued_at queue_ms started_at ended_at duration_ms step_count attempt_count retry_count tool_call_count "
    "failed_tool_call_count tool_wall_ms is_empty is_dangling is_abandoned is_repaired empty_max_tokens_count "
    f"start_seq end_seq error_status {_SUMS}",
    own="last_phase",
    hashed="session_id error_request_id",
    drop="error_message",
    known={"state": words.TURN_STATES, "error_code": words.ERROR_CODES, **_REASON, **_ROUTE},
)

_STEPS = _table(
    keep="turn step started_at ended_at duration_ms is_open attempt_count retry_count tool_call_count tool_wall_ms "
    f"max_parallel_tool_calls model_ms start_seq end_seq {_SUMS}",
    hashed="session_id",
)

_ATTEMPTS = _table(
    keep="turn step attempt branch is_empty is_empty_max_tokens message_seq first_line last_line usage_line started_at "
    "first_token_at last_token_at settled_at billed_at ttft_ms decode_ms duration_ms is_clock_skewed "
    f"output_tokens_per_second {_USAGE} total_tokens cost is_counted_by_old_meter is_counted_by_new_meter "
    "context_window context_used_ratio",
    own="kind outcome usage_source price_source price_window price_note",
    hashed="session_id",
    attempt="attempt_id",
    known={
        "finish_kind": words.FINISH_KINDS,
        "error_code": words.ERROR_CODES,
        "price_id": words.PRICE_IDS,
        **_ROUTE,
    },
)

_TOOL_CALLS = _table(
    keep="turn step ordinal arguments_is_json is_nested call_seq result_seq called_at result_at wall_ms "
    "approval_wait_ms exec_ms is_clock_skewed result_chars is_parallel",
    own="outcome",
    hashed="session_id call_id parent_call_id spawned_session_id",
    drop="arguments",
    known={"tool_name": words.TOOLS, "error_name": words.ERROR_NAMES, "error_code": words.ERROR_CODES},
)

_USAGE_DAILY = _table(
    keep=f"day attempt_count {_SUMS} cache_hit_ratio empty_max_tokens_count empty_max_tokens_input_tokens "
    "empty_max_tokens_output_tokens empty_max_tokens_total_tokens empty_max_tokens_cost",
    own="kind",
    hashed="project",
    known=_ROUTE,
)

# The user's own rates may be those of a contract; tokens and cost tell them anyway.
_PRICES = _table(
    keep="valid_from valid_to input_price output_price cache_read_price cache_write_price peak_factor checked_on "
    "is_applied",
    own="price_source currency windows calendar",
    drop="source",
    known={"price_id": words.PRICE_IDS, **_ROUTE},
)

_MESSAGES = _table(
    keep="position seq is_human turn step event_at char_count is_replacement is_inherited",
    hashed="session_id message_id",
    drop="content text",
    known=_MESSAGE,
)

COLUMNS: Mapping[str, Mapping[str, Rule]] = {
    "raw.logs": _LOGS,
    "raw.events": _EVENTS,
    "raw.chunk_runs": _CHUNK_RUNS,
    "raw.findings": _table(
        keep="branch seq line byte_offset line_count", own="code severity", hashed="log_id", drop="detail excerpt"
    ),
    "marts.sessions": _SESSIONS,
    "marts.turns": _TURNS,
    "marts.turns_repaired": {**_TURNS, "is_synthetic": Action.KEEP},
    "marts.turn_end_reasons": _table(
        keep="day turn_count share", hashed="project", known={"state": words.TURN_STATES, **_ROUTE}
    ),
    "marts.steps": _STEPS,
    "marts.attempts": _ATTEMPTS,
    "marts.compactions": _table(
        keep="compaction turn started_at ended_at duration_ms shadowed_token_count start_seq end_seq",
        own="outcome",
        hashed="session_id compaction_id",
        attempt="attempt_id",
        drop="error_message",
    ),
    "marts.unmetered_calls": _table(keep="branch seq turn requested_at", own="kind", hashed="session_id", known=_ROUTE),
    "marts.usage_daily": _USAGE_DAILY,
    "marts.prices": _PRICES,
    "marts.columns_doc": _table(keep="sort_key", own="schema_name table_name column_name comment reference"),
    "marts.tool_calls": _TOOL_CALLS,
    "marts.tool_latency": _table(
        keep="call_count measured_count open_count error_count error_ratio p50_ms p90_ms p95_ms p99_ms max_ms",
        known={"tool_name": words.TOOLS},
    ),
    "marts.messages": _MESSAGES,
    "marts.transcript": {
        **_MESSAGES,
        **_table(keep="order_key shadowed_by_seq sources_known", known={"type": words.EVENT_TYPES}),
    },
    "marts.message_sources": _table(keep="seq source_seq", own="kind", hashed="session_id"),
    "marts.synthetic_events": _table(
        keep="seq turn step call_seq event_at", own="type error_code", hashed="session_id call_id"
    ),
    "marts.projection_checks": _table(
        keep="is_equal checkpoint_count first_difference_seq first_difference_position are_messages_equal "
        "is_header_equal is_usage_equal are_closers_equal log_message_count table_message_count log_attempt_count "
        "table_attempt_count log_total_tokens table_total_tokens breach_count error_count",
        own="status proved_by",
        # Two are bare hashes of messages, which a guess could confirm.
        hashed="session_id log_id log_hash table_hash",
        drop="reason",
    ),
    "marts.findings": _table(
        keep="ordinal branch seq line byte_offset line_count",
        own="code severity invariant",
        hashed="session_id log_id source path",
        drop="detail excerpt",
    ),
}

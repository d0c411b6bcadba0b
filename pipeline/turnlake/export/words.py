"""Words of a log that a metrics-only export keeps. Any other text in their place is hashed.

A list, and no pattern of what a code looks like: a name, a key or a file may look like a code.
"""

from __future__ import annotations

from turnlake.format.types import KNOWN_TYPES
from turnlake.prices.prices import load_prices


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


EVENT_TYPES = frozenset[str]().union(*KNOWN_TYPES.values())
ROLES = _words("user assistant system developer tool")
ORIGINS = _words("subagent")
# Of messages (spec 9.3) and of titles; the list is open.
SOURCE_KINDS = _words(
    "user model tool plugin system-prompt agent-instructions session-reference team-message goal skill-invocation "
    "skill-catalog coordinator subagent-report subagent-settled agent-message webhook at-file-mention llm manual"
)
CHUNK_TYPES = _words("text-delta reasoning-delta tool-call-delta block-start block-end usage finish")
FINISH_KINDS = _words("stop tool-calls max-tokens error aborted")
TURN_STATES = _words("completed aborted blocked error max-tokens interrupted forked disposed dangling")
# Of an aborted turn; a hook's reason is free text.
ABORTED_BY = _words("user parent disposed hook legacy")
OUTCOMES = _words(
    "allowed-once rejected cancelled unavailable completed failed running done succeeded skipped timed-out error ok"
)
ERROR_NAMES = _words(
    "Error TypeError RangeError SyntaxError AbortError TimeoutError ToolOutcomeUnknownError ToolNotStartedError "
    "ToolApprovalNotDecidedError"
)
ERROR_CODES = _words(
    "UNKNOWN NO_ADAPTER RATE_LIMIT SERVER QUOTA CONTEXT_WINDOW_EXCEEDED EMPTY_RESPONSE MISSING_CREDENTIAL "
    "INVALID_CREDENTIAL STREAM_CLOSED INVALID_REQUEST AUTH MALFORMED_RESPONSE IMAGE_OFFLOAD_REQUIRED NETWORK TIMEOUT "
    "TOOL_NOT_STARTED TOOL_OUTCOME_UNKNOWN TOOL_APPROVAL_NOT_DECIDED ABORTED_BEFORE_DISPATCH ABORTED "
    "ENOENT EACCES EEXIST EPERM EISDIR ENOTDIR ETIMEDOUT ECONNRESET ECONNREFUSED ENOTFOUND EPIPE "
    "rate_limit_exceeded context_length_exceeded insufficient_quota invalid_api_key invalid_request_error "
    "server_error overloaded_error authentication_error"
)
# Tools of the harness itself. What a plugin or an MCP server offers may tell a product or a customer.
TOOLS = _words(
    "bash pwsh read write edit grep glob ls lsp str_replace_editor run_code todo_write read_image web_search web_fetch "
    "subagent subagent_fork workflow ralph report structured_output send_message list_agents ask_user_question "
    "exit_plan_mode create_goal get_goal update_goal job_list job_output job_kill working_directory"
)


# Of the built-in price cards: a provider, a model or a card of the user's own may name a company or a host.
_CARDS = load_prices().cards
PROVIDERS = frozenset(card.provider for card in _CARDS)
MODELS = frozenset(card.model for card in _CARDS)
PRICE_IDS = frozenset(card.id for card in _CARDS)

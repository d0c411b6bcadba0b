"""What the rules remember of one log while its events pass, and how a rule is registered for an event type."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from turnlake.findings import Severity
from turnlake.format.records import EventLine
from turnlake.format.source_seqs import Ranges
from turnlake.format.types import MESSAGE_TYPES
from turnlake.format.values import Object


class Breach(NamedTuple):
    """One broken statement: its id in spec section 11, how grave, what exactly.

    A breach of severity `error` is one for which the harness refuses the log in that format version.
    """

    id: str
    severity: Severity
    detail: str
    # The verdict reason, where the breach has one of its own.
    reason: str = "invariant"
    # Reported once a log, with how often: of the session's own events only.
    is_counted: bool = False


class Compaction(NamedTuple):
    """An open compaction: its id, the turn it names, the open and the last turn where it began."""

    id: str
    turn: Any
    place: tuple[int | None, int]


class Nested:
    """A call that a tool made by itself: a digest of what its start and its end agree on."""

    __slots__ = ("agreed", "is_settled")

    def __init__(self, agreed: bytes) -> None:
        self.agreed = agreed
        self.is_settled = False


class LogState:
    """The state of one log after the events checked so far.

    `session_id` is the header's; `cut` the seq of the session's first own event, in v0 and v1 what the header states.
    Rules append to `breaches`, which whoever runs them takes out.
    """

    def __init__(self, version: int, session_id: str | None = None, cut: int = 0) -> None:
        self.version = version
        self.session_id = session_id
        self.cut = cut
        self.breaches: list[Breach] = []
        self.message_types = MESSAGE_TYPES[version]
        # Brackets: the open turn and step, the last ones begun.
        self.open_turn: int | None = None
        self.open_step: int | None = None
        self.last_turn = self.last_step = 0
        # The event before claimed a message for another turn (up to v3).
        self.may_reopen = False
        # The surface: seqs of its nodes in the model's order; whether a system message heads it.
        self.surface: list[int] = []
        self.has_head = False
        self.message_ids: set[str] = set()
        # By the seq of a tool result: a digest of all but its content.
        self.results: dict[int, bytes] = {}
        # Tool calls of the step: names and arguments by advertised id; seqs of started ones without result.
        self.advertised: dict[str, list[tuple[Any, Any]]] = {}
        self.started: dict[str, int] = {}
        # Nested calls by the id of the call at their root and their own.
        self.nested: dict[str, dict[str, Nested]] = {}
        # The chunks of the step, attempt by attempt (v0 and v1), and the turn and step of the last ones.
        self.slots: list[Ranges] = []
        self.slot_place: tuple[int, int] | None = None
        self.is_slot_closed = True
        self.has_chunks = False
        # Request headers: how often each, by seq, defines each tool (v4); the provider of the one in force.
        self.header_tools: dict[int, Counter[str]] = {}
        self.provider: Any = None
        self.has_header = False
        # True until the first header, or until an answer before it was reported.
        self.awaits_header = True
        # Retries: by turn, step, provider and policy the id of the series and its last number; whose an id is.
        self.retry_series: dict[tuple[str, ...], tuple[str | None, int]] = {}
        self.retry_owners: dict[str, tuple[str, ...]] = {}
        self.announced: set[tuple[str | None, ...]] = set()
        # Compactions: the open one and how many summaries it has; what each summary shadows until its checkpoint
        # comes; the prune that the next event has to carry out.
        self.compaction: Compaction | None = None
        self.summary_count = 0
        self.shadowed: dict[str, tuple[Any, Any]] = {}
        self.pruned: tuple[int, Any] | None = None
        # What later events may name: messages of humans, commands, children.
        self.prompts: set[int] = set()
        self.commands: set[str] = set()
        self.command_seqs: set[int] = set()
        self.children: set[str] = set()

    def error(self, id: str, detail: str, reason: str = "invariant") -> None:
        """A breach for which the harness refuses the log."""
        self.breaches.append(Breach(id, "error", detail, reason))

    def warn(self, id: str, detail: str) -> None:
        """A breach for which the harness reads the log all the same."""
        self.breaches.append(Breach(id, "warning", detail))

    def advise(self, id: str, detail: str) -> None:
        """A breach that harms nobody."""
        self.breaches.append(Breach(id, "advisory", detail))

    def count(self, id: str, severity: Severity, detail: str) -> None:
        """A breach that a log may hold any number of times; the detail says what is counted."""
        self.breaches.append(Breach(id, severity, detail, is_counted=True))

    def leave_step(self) -> None:
        """A step begins or ends: its calls and chunks are behind."""
        self.advertised, self.started = {}, {}
        self.slots, self.is_slot_closed, self.slot_place = [], True, None


Rule = Callable[[LogState, EventLine, Object], None]

# The rules of each event type in the order in which they are asked.
RULES: defaultdict[str, list[Rule]] = defaultdict(list)


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    """Registers a rule for events of these types; it gets the state, the record, and the event's data, an object."""

    def register(function: Rule) -> Rule:
        for kind in kinds:
            RULES[kind].append(function)
        return function

    return register

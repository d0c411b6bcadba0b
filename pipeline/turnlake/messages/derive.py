"""Events to the messages that the model sees: the pure function, and the same a step at a time."""

from __future__ import annotations

from collections.abc import Iterable

from turnlake.format.values import Object, is_count
from turnlake.messages.frozen import Message
from turnlake.messages.messages import message_of, offloaded, owned
from turnlake.messages.surface import Fault, Surface, SurfaceFold, node_types

# An event that owns no message and still changes some: marks images that are no longer sent.
OFFLOAD = "image/offload"
OFFLOAD_SINCE = 3


class Projection:
    """The messages after the events seen so far.

    Each node is projected once: `derived` keeps by seq what its event gives, and may be handed on to another
    projection of the same log. An append costs the one message, a rewrite the nodes it names.
    """

    def __init__(self, version: int | None, derived: dict[int, Message | None] | None = None) -> None:
        self.version = version or 0
        self.derived: dict[int, Message | None] = {} if derived is None else derived
        self._fold = SurfaceFold(self.version)
        self._node_types = node_types(self.version)
        # The types of all events that can change messages.
        self.types = self._node_types | {OFFLOAD} if self.version >= OFFLOAD_SINCE else self._node_types
        # The message of each node, beside the fold's nodes.
        self._shown: list[Message | None] = []
        self._messages: tuple[Message, ...] | None = ()

    def see(self, event: Object) -> None:
        """Go on by one event; most types change nothing. Raises ValueError where seqs do not rise."""
        kind = event["type"]
        if kind in self._node_types:
            self._node(event)
        elif kind in self.types:
            self._offload(event)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in the model's order; the same object until an event changes them."""
        if self._messages is None:
            self._messages = tuple([message for message in self._shown if message is not None])
        return self._messages

    @property
    def surface(self) -> Surface:
        """The surface below the messages, with all faults."""
        return self._fold.surface()

    def _node(self, event: Object) -> None:
        place = self._fold.see(int(event["seq"]), event.get("surfaceOp"))
        if place is None:
            return
        seq = int(event["seq"])
        if seq in self.derived:
            message = self.derived[seq]
        else:
            message = self.derived[seq] = message_of(event)
        if message is None and not isinstance(owned(event), dict):
            self._fault(seq, "owns no message")
        if message is not None or place.start < place.stop:
            self._messages = None
        self._shown[place] = [message]

    def _offload(self, event: Object) -> None:
        data = event.get("data")
        targets = data.get("targets") if isinstance(data, dict) else None
        if not isinstance(targets, (list, tuple)) or not targets:
            self._fault(event["seq"], "offloads images of nothing")
            return
        places = {seq: place for place, seq in enumerate(self._fold.nodes)}
        for target in targets:
            self._mark(event["seq"], target if isinstance(target, dict) else {}, places)

    def _mark(self, seq: int, target: Object, places: dict[int, int]) -> None:
        """Mark the images of one target; places are those of the nodes that no target of the event has named yet."""
        node = target.get("seq")
        place = places.pop(int(node), None) if is_count(node) else None
        before = None if place is None else self._shown[place]
        after = None if before is None else offloaded(before, target.get("imageIndexes"))
        if place is None or after is None:
            self._fault(seq, f"offloads images of event {node} that are not there to offload")
            return
        self._shown[place], self._messages = after, None

    def _fault(self, seq: int, detail: str) -> None:
        self._fold.faults.append(Fault(seq, detail))


def derive_messages(events: Iterable[Object], *, version: int | None) -> tuple[Message, ...]:
    """The messages after events of that format version (None: the tutorial dialect), deeply frozen.

    Events are a log's accepted ones, each once, in order of seq, older shapes normalised, as `read_log` gives
    them. Raises ValueError where seqs do not rise.
    """
    projection = Projection(version)
    for event in events:
        projection.see(event)
    return projection.messages

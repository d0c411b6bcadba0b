"""Events that name others by number or id: commands, titles, deliveries, children (INV-40 to INV-42, INV-44)."""

from __future__ import annotations

from collections.abc import Iterator

from turnlake.format.breach import Breach, counted, warning
from turnlake.format.values import Object, is_count, name_of


class Citations:
    """What later events of one log may name."""

    def __init__(self, session_id: str | None) -> None:
        self._session_id = session_id
        self._prompts: set[int] = set()
        self._commands: set[str] = set()
        self._command_seqs: set[int] = set()
        self._children: set[str] = set()

    def prompt(self, seq: int) -> None:
        """A message that a human wrote."""
        self._prompts.add(seq)

    def command_run(self, seq: int, data: Object) -> None:
        """A command/run."""
        self._commands.add(name_of(data.get("commandId")))
        self._command_seqs.add(seq)

    def command_done(self, seq: int, data: Object) -> Iterator[Breach]:
        """A command/done."""
        self._command_seqs.add(seq)
        if name_of(data.get("commandId")) not in self._commands:
            yield warning("INV-40", "a command is done that did not run")
        elif "sourceEventSeq" in data and not self._may_cite(seq, data):
            yield warning("INV-40", "a command names an event though it failed, or a later one, or a command's")

    def _may_cite(self, seq: int, data: Object) -> bool:
        cited = data["sourceEventSeq"]
        is_earlier = is_count(cited) and cited < seq and cited not in self._command_seqs
        return is_earlier and data.get("kind") == "success"

    def title(self, data: Object) -> Iterator[Breach]:
        """A session/title."""
        seqs, source = data.get("messageSeqs"), data.get("source")
        if not isinstance(seqs, list) or not all(is_count(seq) and seq in self._prompts for seq in seqs):
            yield warning("INV-41", "a title cites something else than earlier messages of a human")
        elif (not seqs) is not (isinstance(source, dict) and source.get("kind") == "user"):
            yield warning("INV-41", "only a title that the user gave cites no message, and it cites none")

    def delivery(self, seq: int, data: Object) -> Iterator[Breach]:
        """A session-log-deepseek/delivery-accepted."""
        through, session = data.get("throughSeq"), data.get("sessionId")
        if not is_count(through) or through >= seq:
            yield warning("INV-42", "a delivery covers events that are not earlier")
        elif self._session_id is not None and session != self._session_id:
            # In a copied prefix it names the parent; where that ends is known only at the end of the log.
            yield counted("INV-42", "warning", "a delivery names another session")

    def child(self, data: Object) -> Iterator[Breach]:
        """A subagent/catalog."""
        name = name_of(data.get("childId"))
        if name in self._children:
            yield counted("INV-44", "warning", "a child is listed twice")
        self._children.add(name)

    def inherit(self) -> None:
        """What came before is the parent's; its children are not this session's."""
        self._children.clear()

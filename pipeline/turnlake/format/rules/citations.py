"""Events that name others by number or id: commands, titles, deliveries, children (INV-40 to INV-42, INV-44)."""

from __future__ import annotations

from turnlake.format.records import EventLine
from turnlake.format.rules.state import LogState, rule
from turnlake.format.values import Object, is_count, name_of


@rule("command/run")
def command_run(state: LogState, record: EventLine, data: Object) -> None:
    """A command that a later event may say is done."""
    state.commands.add(name_of(data.get("commandId")))
    state.command_seqs.add(record.event["seq"])


@rule("command/done")
def command_done(state: LogState, record: EventLine, data: Object) -> None:
    """A command is done that ran; where it succeeded it may name the event it gave."""
    seq = record.event["seq"]
    state.command_seqs.add(seq)
    if name_of(data.get("commandId")) not in state.commands:
        state.warn("INV-40", "a command is done that did not run")
    elif "sourceEventSeq" in data:
        cited = data["sourceEventSeq"]
        is_earlier = is_count(cited) and cited < seq and cited not in state.command_seqs
        if not is_earlier or data.get("kind") != "success":
            state.warn("INV-40", "a command names an event though it failed, or a later one, or a command's")


@rule("session/title")
def title(state: LogState, record: EventLine, data: Object) -> None:
    """A title cites the messages it was made from, and one that the user gave cites none."""
    seqs, source = data.get("messageSeqs"), data.get("source")
    if not isinstance(seqs, list) or not all(is_count(seq) and seq in state.prompts for seq in seqs):
        state.warn("INV-41", "a title cites something else than earlier messages of a human")
    elif (not seqs) is not (isinstance(source, dict) and source.get("kind") == "user"):
        state.warn("INV-41", "only a title that the user gave cites no message, and it cites none")


@rule("session-log-deepseek/delivery-accepted")
def delivery(state: LogState, record: EventLine, data: Object) -> None:
    """A delivery covers earlier events of this session."""
    through, session = data.get("throughSeq"), data.get("sessionId")
    if not is_count(through) or through >= record.event["seq"]:
        state.warn("INV-42", "a delivery covers events that are not earlier")
    elif state.session_id is not None and session != state.session_id:
        # In a copied prefix it names the parent; where that ends is known only at the end of the log.
        state.count("INV-42", "warning", "a delivery names another session")


@rule("subagent/catalog")
def child(state: LogState, record: EventLine, data: Object) -> None:
    """Each child is listed once."""
    name = name_of(data.get("childId"))
    if name in state.children:
        state.count("INV-44", "warning", "a child is listed twice")
    state.children.add(name)


@rule("session/end-seed")
def end_seed(state: LogState, record: EventLine, data: Object) -> None:
    """What came before an inherited one is the parent's: its children are not this session's."""
    if data.get("inherited") is True:
        state.children.clear()

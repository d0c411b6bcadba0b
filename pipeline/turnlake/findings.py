"""Findings: what is worth knowing about a log, each with a code from one documented list."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "advisory"]

EXCERPT_CHARS = 200


class Code(NamedTuple):
    """A kind of finding: how grave it is and what it means."""

    severity: Severity
    about: str


# Kept in alphabetical order; docs/findings.md is made from it.
CODES: dict[str, Code] = {
    "INV-01": Code("error", "The header is not valid."),
    "INV-03": Code("error", "An event's envelope or payload is not valid."),
    "INV-04": Code("error", "An event of unknown type is not marked ignorable."),
    "INV-05": Code("error", "surfaceOp or sourceEventSeqs is missing or stands where it may not."),
    "INV-06": Code("error", "A replacement names no range of the current surface."),
    "INV-07": Code("error", "sourceEventSeqs is empty, repeats a number or names a later event."),
    "INV-08": Code("error", "A replacing event does not cite all that it replaces."),
    "INV-09": Code("error", "A replacing tool result changes more than content."),
    "INV-10": Code("error", "Two turns are open at once, or another turn ends than the open one."),
    "INV-11": Code("error", "Turn numbers do not count 1, 2, 3."),
    "INV-12": Code("error", "Step numbers do not count 1, 2, 3 inside their turn, or two are open."),
    "INV-13": Code("error", "A turn ends while a step is open."),
    "INV-14": Code("error", "An event names another turn or step than the open one."),
    "INV-15": Code("warning", "A tool result is replaced outside a turn."),
    "INV-16": Code("advisory", "A message of a human stands outside a step."),
    "INV-17": Code("warning", "A tool call matches no block of its step's message."),
    "INV-18": Code("error", "A tool result has no open call in its step."),
    "INV-19": Code("warning", "A call id is used by two open calls."),
    "INV-20": Code("warning", "A tool result cites another event than its call."),
    "INV-21": Code("warning", "A call has no result when its step ends."),
    "INV-22": Code("error", "The call ids in a tool result differ."),
    "INV-23": Code("error", "A tool result with an error is not marked as one."),
    "INV-24": Code("error", "A message has the wrong role or shape for its event."),
    "INV-25": Code("error", "A message cites chunks that are not those of one attempt."),
    "INV-26": Code("error", "A message lacks its stream, or cites chunks where formats have none."),
    "INV-27": Code("error", "A stream record is malformed."),
    "INV-29": Code("warning", "A request header or context stands outside a turn, or has a reason it may not have."),
    "INV-30": Code("warning", "The model answers before the first request header."),
    "INV-31": Code("error", "A request header holds what its format has retired."),
    "INV-32": Code("error", "A node stands before the system message, or replaces it."),
    "INV-33": Code("error", "A developer message adds tools that the header it names does not define exactly once."),
    "INV-34": Code("warning", "A retry names another step or provider, or its series does not count 1, 2, 3."),
    "INV-35": Code("warning", "Compactions overlap, or one ends without its start or its one summary."),
    "INV-36": Code("warning", "A compaction's checkpoint replaces other events than its summary names."),
    "INV-37": Code("warning", "A compaction names another turn than it lies in, or a turn begins or ends inside it."),
    "INV-38": Code("warning", "A prune is not followed by the result that replaces the pruned one."),
    "INV-39": Code("warning", "A nested call starts or settles outside a turn, twice, alone, or unlike its other end."),
    "INV-40": Code("warning", "A command is done that did not run, or names an event it may not."),
    "INV-41": Code("warning", "A title cites something else than earlier messages of a human."),
    "INV-42": Code("warning", "A delivery covers later events, or names another session."),
    "INV-43": Code("error", "The inherited prefix and the header contradict each other, or it ends inside an attempt."),
    "INV-44": Code("warning", "A child is listed twice."),
    "INV-45": Code("error", "A message source of kind plugin, which v4 has retired."),
    "INV-46": Code("advisory", "The log ends inside a turn: its writer is at work, or died."),
    "INV-49": Code("advisory", "A usage has more reasoning than output, or another total than its parts give."),
    "INV-50": Code("warning", "Two messages have one id."),
    "approval_unmatched": Code("warning", "An approval names no call, and not exactly one of its tool is open."),
    "archive_absurd_size": Code("error", "An entry of an export ZIP claims to hold absurdly much; it is not read."),
    "archive_duplicate_entry": Code("warning", "An export ZIP has two entries of one name; the last one is read."),
    "archive_encrypted_entry": Code("error", "An entry of an export ZIP is encrypted; it is not read."),
    "archive_unreadable": Code("error", "A ZIP, or an entry of one, is damaged or of a kind that can't be read."),
    "bad_record": Code("warning", "A record that breaks the format; from here on the harness accepts nothing."),
    "branch": Code("warning", "Sequence numbers go back: two writers wrote one log. The later ones count."),
    "clock_went_back": Code("advisory", "Event times go back; told once a log, with how often."),
    "corrupt_middle": Code("error", "A finished turn lies behind the first bad record: the harness refuses the log."),
    "decompression_bomb": Code("error", "A frame decompresses to absurdly more than it holds; reading stopped there."),
    "deleted_marker": Code("advisory", "A session folder is marked as deleted; its logs are not read."),
    "diverged_copy": Code("warning", "Copies of one session differ; the one with the later last event counts."),
    "duplicate_session_id": Code("warning", "Another session has the same id; this one got a suffix in the lake."),
    "first_frame_not_header": Code(
        "error", "The first frame of a compressed log holds more or less than the header line."
    ),
    "flat_layout": Code("advisory", "A log lies outside a session folder, as tutorials and early trials have it."),
    "folder_too_deep": Code("warning", "A folder lies more than eight levels below its source; it is not read."),
    "frame_corrupt": Code("error", "A frame of a compressed log is damaged; what stands behind it can't be read."),
    "frame_ends_in_line": Code("error", "The complete frames of a compressed log end inside a line."),
    "ignored_file": Code("advisory", "A file is named like an archive or store, or nearly like a log, and not read."),
    "invalid_utf8": Code("warning", "A line is no valid UTF-8; the bad bytes were read as U+FFFD."),
    "legacy_shape_in_v1": Code(
        "warning", "An event shape of the oldest logs in a log that says version 1; it was read all the same."
    ),
    "lineage_cycle": Code("warning", "The parents of a session lead back to itself; its tree ends there."),
    "lone_surrogate": Code(
        "advisory", "A string holds half of a surrogate pair; SQL columns show U+FFFD, the payload keeps it."
    ),
    "lost_log": Code(
        "error", "A log was gone already when files of the lake with its rows were damaged: its rows are lost."
    ),
    "mixed_compression": Code("warning", "A log is stored twice, raw and compressed."),
    "no_header": Code("error", "A log without a session header; its lines were read for counting only."),
    "not_a_log": Code(
        "advisory", "A file with a log's suffix whose first line is neither a header nor an event; it is not read."
    ),
    "not_a_regular_file": Code("warning", "A fifo, device or socket has a log's name; it is never opened."),
    "path_mismatch": Code("warning", "A log lies in another folder than its header names; the header counts."),
    "seq_gap": Code("warning", "A sequence number other than the one due; from here on the harness accepts nothing."),
    "store_session_unread": Code(
        "error", "Rows of an SQLite store belong to no session, or to one without a usable id; they are not read."
    ),
    "store_unreadable": Code(
        "error", "An SQLite store is damaged, of an unknown schema or can't be opened; no session of it is read."
    ),
    "symlink_outside": Code("warning", "A symbolic link leads out of its source; it is not followed."),
    "unknown_header_key": Code("warning", "The header has a member the format does not know."),
    "unknown_type": Code("advisory", "An event type the format does not know, marked ignorable."),
    "unread_line": Code("warning", "A line that gives no row: no JSON, no record, or longer than allowed."),
    "unreadable_file": Code("error", "A file can't be looked at or opened."),
    "unreadable_folder": Code("error", "A folder can't be listed, or vanished while it was; logs in it are missing."),
    "unsupported_legacy": Code("error", "An event shape so old that every harness refuses it."),
    "version_mismatch": Code("error", "The file name and the header state different versions; no line was read."),
}


# Code -> the statement of spec section 11 (docs/invariants.md) that such a finding tells to be broken. A `bad_record`
# may break any that one line can break, such as INV-28; its detail says how.
INVARIANTS: dict[str, str] = {code: code for code in CODES if code.startswith("INV-")} | {
    "branch": "INV-02",
    "clock_went_back": "INV-47",
    "no_header": "INV-01",
    "seq_gap": "INV-02",
    "unknown_header_key": "INV-01",
    "version_mismatch": "INV-01",
}


class Finding(NamedTuple):
    """One finding. `line` counts from 1 (the header), `byte_offset` in the decompressed log."""

    code: str
    detail: str
    line: int | None = None
    byte_offset: int | None = None
    branch: int | None = None
    seq: int | None = None
    excerpt: str | None = None
    # The severity of the code, unless the format version makes it graver or milder.
    severity: Severity | None = None
    # Consecutive lines it stands for, from `line` on; None where it is about none by itself.
    line_count: int | None = None


def shown(text: str) -> str:
    """Words that may quote a log: bounded, and U+FFFD for what is no valid Unicode."""
    return text[:500].encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def excerpt(data: bytes) -> str:
    """The start of a line as text fit for a table: at most 200 characters, never invalid Unicode."""
    return data[: 4 * EXCERPT_CHARS].decode("utf-8", "replace")[:EXCERPT_CHARS]

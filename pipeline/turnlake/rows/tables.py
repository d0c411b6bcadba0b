"""The raw tables of the lake: every column declared once, with its type and what it means.

The Arrow schemas, the Parquet encodings and `docs/tables.md` are made from these lists. Rows of `events`
and `chunk_runs` name their log by `log_id` only: what a log is called (its session id, whether another
copy supersedes it) may change when other logs appear, and rows once written stand still.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

# Raised whenever the rows of an unchanged log would differ: such logs are then read again.
PARSER_VERSION = 3
# The integer in `<lake>/format`: raised when an older turnlake could misread the lake.
LAKE_FORMAT = 2

Type = Literal["text", "int", "bool", "float", "ints", "texts"]
# "delta" suits numbers that grow slowly, "dictionary" values that recur; "plain" everything else.
Encoding = Literal["plain", "delta", "dictionary"]


@dataclass(frozen=True)
class Column:
    """A column: its name, its type, what it holds, how Parquet stores it."""

    name: str
    type: Type
    about: str
    encoding: Encoding = "plain"


@dataclass(frozen=True)
class Table:
    """A raw table: its name, what one row is, its columns in order."""

    name: str
    about: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(column.name for column in self.columns)

    def encoded(self, encoding: Encoding) -> list[str]:
        """The names of the columns stored with that encoding."""
        return [column.name for column in self.columns if column.encoding == encoding]

    def schema(self) -> pa.Schema:
        """The Arrow schema of the table's Parquet files."""
        import pyarrow as pa

        types = {
            "text": pa.string(),
            "int": pa.int64(),
            "bool": pa.bool_(),
            "float": pa.float64(),
            "ints": pa.list_(pa.int64()),
            "texts": pa.list_(pa.string()),
        }
        return pa.schema([(column.name, types[column.type]) for column in self.columns])


def _text(name: str, about: str, encoding: Encoding = "dictionary") -> Column:
    return Column(name, "text", about, encoding)


def _int(name: str, about: str, encoding: Encoding = "dictionary") -> Column:
    return Column(name, "int", about, encoding)


def _flag(name: str, about: str) -> Column:
    return Column(name, "bool", about)


_LOG_ID = _text("log_id", "Log the row comes from: first 16 hex digits of the SHA-256 of source name and path.")
_BRANCH = _int("branch", "0, and one more each time the sequence numbers of the log go back (two writers).")
_LINE = _int("line", "Line of the log, from 1; the header is line 1.", "delta")
_BYTE_OFFSET = _int("byte_offset", "Offset of the line's first byte in the decompressed log.", "delta")
_IS_PROVISIONAL = _flag("is_provisional", "The line was recovered from a torn last frame; the harness will rewrite it.")
_RAW_LINE = _text(
    "raw_line",
    "The whole line as written, where the other columns can't give it back (an older shape that was normalised, "
    "unusual members, text that is not valid Unicode); else NULL.",
    "plain",
)
_FINISH = (
    _text("finish_kind", "Kind of the stream's last `finish`: stop, tool-calls, max-tokens, error, aborted."),
    _text("error_name", "Name of the error in the row, if it has one (tool results)."),
    _text("error_code", "Code of the failure or error in the row, if it has one."),
    _text("error_message", "Message of that failure."),
    _int("error_status", "HTTP status of that failure."),
    _text("error_request_id", "Request id of that failure."),
)
_USAGE = (
    _int("input_tokens", "Uncached prompt tokens of the usage in the row; NULL when absent or invalid."),
    _int("output_tokens", "Generated tokens, reasoning included."),
    _int("cache_read_tokens", "Prompt tokens served from the cache; NULL when not reported."),
    _int("cache_write_tokens", "Prompt tokens written to the cache; NULL when not reported."),
    _int("reasoning_tokens", "Reasoning tokens, a part of output_tokens; NULL when not reported."),
    _int("reported_total_tokens", "The total as the log states it; NULL when not reported. Never summed."),
    _text("invalid_usage", "JSON of the usage, where one of its numbers is negative, fractional or no number."),
)

LOGS = Table(
    "logs",
    "One row per log file seen.",
    (
        _LOG_ID,
        _text("source", "Name of the source the log was found under: NAME of `NAME=PATH`, else the absolute path."),
        _text("machine", "NAME of `NAME=PATH`; NULL where no name was given."),
        _text("path", "Path of the file below its source; `archive.zip!/entry` inside an export ZIP.", "plain"),
        _text("file_name", "Name of the file."),
        _text("container", "How the lines are stored: raw, zstd, sqlite."),
        _text("session_id", "Session the log holds, unique in the lake among the logs that are not superseded."),
        _text("header_id", "Session id as the header states it; NULL without a readable header."),
        _int("generation", "Generation by the file name (`session.v3.jsonl` is 3); NULL for any other name."),
        _int("format_version", "Version the header states; NULL without one."),
        _text(
            "dialect", "real, mixed (real header, tutorial lines), tutorial, headerless; NULL when nothing was read."
        ),
        _text("header", "The header line as written.", "plain"),
        _int("created_at_ms", "Header `createdAt`, Unix ms; for a log without header the first time in it."),
        _text("cwd", "Header `cwd` as written.", "plain"),
        _text("parent_session_id", "Header `parentSession`."),
        _text("origin", "Header `origin`: subagent, or NULL."),
        _int("delegation_depth", "Header `delegationDepth`."),
        _text("agent_preset", "Header `agentPreset`."),
        _flag("is_seeded", "The log starts with a prefix copied from its parent."),
        _int(
            "inherited_event_count",
            "Leading events copied from the parent: events with a smaller seq are not the session's own.",
        ),
        _int("bytes", "Size of the file."),
        _int("decoded_bytes", "Size of its lines after decompression."),
        _int("line_count", "Complete lines, the header included."),
        _int("event_count", "Readable events, chunks expanded, accepted or not."),
        _int(
            "accepted_event_count",
            "Events the harness would accept: those of branch 0 with a smaller seq; 0 when refused.",
        ),
        _int("dropped_record_count", "Complete lines from the first bad one on, which the harness drops."),
        _int("unread_line_count", "Complete lines that gave no row; each has a finding."),
        _text("verdict", "What the harness would do: clean, removable_tail, refused."),
        _text("verdict_reason", "Why it is not clean."),
        _int("verdict_line", "Line the verdict rests on, where it is not clean."),
        _flag("is_torn", "The file ends inside a line or a frame."),
        _int("torn_bytes", "Bytes of the file behind its last complete line or frame."),
        _flag("is_read", "Rows were read from the log."),
        _flag("has_unknown_required_type", "An event of a type unknown to the harness is not marked ignorable."),
        _int("first_event_ms", "Smallest own event time, Unix ms."),
        _int("last_event_ms", "Largest own event time, Unix ms."),
        _int("clock_anomaly_count", "Own events whose time is less than that of the event before."),
        _text("superseded_by", "log_id of the log that counts instead of this one."),
        _text("superseded_why", "generation, copy, diverged_copy."),
        _flag("is_missing", "The file was there in an earlier build and is gone."),
        _int("parser_version", "Version of the parser that wrote the log's rows."),
        _text(
            "proof",
            "JSON text of what the log gives when its messages, calls and closers are derived without any table, as "
            "digests and sums; NULL where it was not.",
            "plain",
        ),
    ),
)

EVENTS = Table(
    "events",
    "One row per event that is not a stream chunk.",
    (
        _LOG_ID,
        _BRANCH,
        _int("seq", "Sequence number of the event in its log, from 0.", "delta"),
        _LINE,
        _BYTE_OFFSET,
        _text("type", "Event type, older names normalised."),
        _int("time_ms", "Time of the event, Unix ms; not monotonic.", "delta"),
        _text(
            "payload",
            "JSON text of the event's `data` as written, older shapes normalised; a `stream` in it that is kept beside it reads `[]`.",
            "plain",
        ),
        _text(
            "stream",
            "The payload's `stream` as written (v2 and later), which reads `[]` there; NULL where the event has no well-formed stream.",
            "plain",
        ),
        _text(
            "sql_payload",
            "The payload written anew where SQL would not read it alike: U+FFFD for lone surrogates, no member twice; else NULL.",
            "plain",
        ),
        _text("surface_op", "append or replace on surface events, else NULL."),
        _int("replace_start_seq", "First surface node that a replace shadows."),
        _int("replace_end_seq", "Last surface node that a replace shadows."),
        Column(
            "source_ranges",
            "ints",
            "`sourceEventSeqs` as pairs first, last of each run, in order; `[]` = known to be empty, NULL = absent.",
        ),
        _flag("is_ignorable", "The event is marked `ignorable`."),
        _flag("is_known_type", "The type is one the format version knows."),
        _text("normalised_from", "legacy or tutorial, where the event was written in such a shape; else NULL."),
        _IS_PROVISIONAL,
        _RAW_LINE,
        _int("turn", "Turn that the payload names."),
        _int("step", "Step that the payload names."),
        _text("message_id", "Id of the event's message.", "plain"),
        _text("role", "Role of the event's message as written."),
        _text("source_kind", "Kind of the message's source, or of a title's."),
        _text("source_name", "Plugin, skill or sender that the message's source names."),
        _text("call_id", "Tool call the event is about; of a nested dispatch its own sub call.", "plain"),
        _text("parent_call_id", "Call that a nested dispatch belongs to.", "plain"),
        _text("tool_name", "Tool the event names."),
        _text(
            "arguments",
            "Arguments of a tool call as the model wrote them; of a nested dispatch their JSON text.",
            "plain",
        ),
        _flag("arguments_is_json", "Those arguments are JSON."),
        Column("tool_call_ids", "texts", "Ids of the message's tool-call blocks, in order."),
        Column("tool_call_arguments", "texts", "Arguments of those blocks as the model wrote them."),
        Column("tool_call_names", "texts", "Tool names of those blocks."),
        _flag("is_error", "The tool result is marked as an error."),
        _int("content_block_count", "Blocks in the message's content; 0 = an empty message."),
        _int("reasoning_block_count", "Reasoning blocks among them."),
        _int("content_chars", "Characters in the text of those blocks, a tool result's inner text included."),
        _text("provider", "Provider of the call, request or selection."),
        _text("model", "Model of the call, request or selection."),
        _int("context_window", "Tokens the model's window holds, where advertised."),
        _text("reason_kind", "Kind of a turn's end reason; reason of a request header."),
        _text("reason_detail", "Kind or text of the reason inside an aborted turn."),
        *_FINISH,
        *_USAGE,
        _text("usage_place", "Where that usage stands: message, stream, compaction; NULL without one."),
        _flag("is_interrupted", "The message is marked `interrupted`."),
        _int("chunk_count", "Stream chunks embedded in the event (v2 and later)."),
        _int("first_token_ms", "Time of the embedded stream's first non-empty delta."),
        _int("last_token_ms", "Time of the embedded stream's last delta."),
        _int("last_chunk_ms", "Time of the embedded stream's last chunk."),
        _text(
            "related_id",
            "Id that ties events together: of an approval, compaction, retry, command, hook, job or run.",
            "plain",
        ),
        _text("outcome", "Outcome or status: approval decision, command kind, workflow outcome, compaction error."),
        _int("shadowed_token_count", "Context tokens a compaction or prune estimates to have shadowed; not usage."),
        _int("retry", "Number of a retry, from 1."),
        Column("delay_ms", "float", "Delay before a retry, or duration of a hook, in ms."),
        Column("inserted_ids", "texts", "Ids of the messages an inbox splice inserted."),
        _text("child_id", "Session the event names: a subagent, a delivery, a team member.", "plain"),
        _text("label", "Title, label, preset, policy or mode that the event sets.", "plain"),
    ),
)

CHUNK_RUNS = Table(
    "chunk_runs",
    "One row per line of stream chunks (v0 and v1): a packed row, or a single chunk.",
    (
        _LOG_ID,
        _BRANCH,
        _int("seq", "Sequence number of the line's first chunk.", "delta"),
        _LINE,
        _BYTE_OFFSET,
        _text("form", "How the chunks are stored: packed, single."),
        _int("turn", "Turn the chunks belong to."),
        _int("step", "Step the chunks belong to."),
        _text(
            "chunk_type",
            "text-delta, reasoning-delta, tool-call-delta, block-start, block-end, usage, finish, or as written.",
        ),
        _int("block_index", "Index of the content block the chunks belong to."),
        _int("chunk_count", "Chunks in the line."),
        _int("time_ms", "Time of the first chunk, Unix ms.", "delta"),
        _int("last_time_ms", "Time of the last chunk, Unix ms.", "delta"),
        _int("first_token_ms", "Time of the line's first delta that holds text, a tool name or arguments.", "delta"),
        _text("call_id", "Tool call of tool-call deltas.", "plain"),
        _text("tool_name", "Tool name of tool-call deltas; NULL where the line has none."),
        _text("payload", "JSON text of the line's `data` as written.", "plain"),
        *_FINISH,
        *_USAGE,
        _IS_PROVISIONAL,
        _RAW_LINE,
    ),
)

FINDINGS = Table(
    "findings",
    "One row per thing worth knowing about a log.",
    (
        _text("log_id", "Log it is about; NULL where no log could be made out."),
        _text("code", "What was found, a name of the list in `docs/findings.md`."),
        _text(
            "severity", "error: the harness would refuse the log; warning: a reader should know; advisory: harmless."
        ),
        _int("branch", "Branch of the event it is about."),
        _int("seq", "Sequence number of that event."),
        _int("line", "Line of the log, from 1."),
        _int("byte_offset", "Offset of that line in the decompressed log; of a damaged frame in the file."),
        _int("line_count", "Consecutive lines it stands for, from that line on; NULL where it is about none."),
        _text("detail", "What exactly, in words.", "plain"),
        _text("excerpt", "Start of the line, at most 200 characters.", "plain"),
    ),
)

TABLES: dict[str, Table] = {table.name: table for table in (LOGS, EVENTS, CHUNK_RUNS, FINDINGS)}

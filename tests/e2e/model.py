"""A model server on the loopback interface that answers by script and keeps what it was asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

from e2e import chat_wire, messages_wire
from e2e.script import Answer, Failure, Item, Used

WIRES = {wire.PATH: wire for wire in (messages_wire, chat_wire)}
# Requests beside the conversation: they offer no tools, and their tokens stand in no log.
ASIDE = Answer(Used(1_000_000, 1_000_000), text="A title")
# What an answer cost that failed or broke: the harness notes tokens only when an answer is whole.
UNKNOWN = (None, None, None, None)
# Between two events of a stream, so that builds meet a harness in the middle of one.
PAUSE = 0.02


@dataclass
class Model:
    """The script and its course.

    `requests` are those of the conversation and `bills` what their answers cost; `asides` counts the other requests.
    `uploaded` has the events of the log, by seq, that the harness sent along.
    """

    script: list[Answer | Failure] = field(default_factory=list)
    requests: list[list[Item]] = field(default_factory=list)
    bills: list[tuple[int | None, ...]] = field(default_factory=list)
    asides: int = 0
    uploaded: dict[int, dict[str, Any]] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)
    address: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def says(self, *answers: Answer | Failure) -> None:
        """Puts answers behind those not given yet."""
        self.script += answers

    def check_is_done(self) -> None:
        """Every answer was asked for, and nothing else was."""
        assert not self.script
        assert not self.surprises

    def answer(self, path: str, body: dict[str, Any]) -> Answer | Failure:
        """Takes the next answer of the script for a request."""
        with self._lock:
            self.uploaded |= {event["seq"]: event for event in body.get("dsh_session_log", {}).get("events", [])}
            if not body.get("tools"):
                self.asides += 1
                return ASIDE
            self.requests.append(WIRES[path].items(body))
            if not self.script:
                self.surprises.append(f"request {len(self.requests)} is not in the script")
                return Failure(400)
            answer = self.script.pop(0)
            is_whole = isinstance(answer, Answer) and not answer.is_broken
            self.bills.append(WIRES[path].billed(answer) if is_whole else UNKNOWN)
            return answer


@contextmanager
def serving() -> Iterator[Model]:
    """A server that lives as long as the block."""
    model = Model()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(model))
    model.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            wire = WIRES.get(self.path)
            if wire is None:
                model.surprises.append(f"POST {self.path}")
                self._fail(404)
                return
            answer = model.answer(self.path, body)
            if isinstance(answer, Failure):
                self._fail(answer.status)
            else:
                self._stream(wire, answer, body["model"])

        def do_GET(self) -> None:
            model.surprises.append(f"GET {self.path}")
            self._fail(404)

        def _fail(self, status: int) -> None:
            error = {"type": "scripted", "message": "as the script says"}
            body = json.dumps({"type": "error", "error": error}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, wire: ModuleType, answer: Answer, name: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for event in wire.stream(answer, name):
                self.wfile.write(event)
                time.sleep(PAUSE)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler

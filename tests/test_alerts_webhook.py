"""What `turnlake alerts` posts, to a real server on this machine that takes it, refuses it, stalls or is not there."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from turnlake.alerts import webhook
from turnlake.alerts.document import ROWS_BYTES, TEXT_LENGTH, TEXT_LINES, VALUE_LENGTH, chat_text, webhook_document
from turnlake.alerts.run import Fired, Outcome
from turnlake.alerts.webhook import LONGEST_PAUSE_S, TRIES, Webhook, parse_webhook, post
from turnlake.cli import main
from turnlake.errors import DeliveryError, UsageError

SECRET = "T0KEN/b0tt0m-secret"
AT = datetime(2026, 9, 18, 12, tzinfo=UTC)


@dataclass
class Answer:
    """What the server does with one request; a stalled one is held until the test ends."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    does: str = "answer"


@dataclass
class Hook:
    """A server and its script: one answer a request, the last one for all that follow."""

    url: str
    answers: list[Answer]
    requests: list[tuple[str, dict[str, str], Any]]
    released: threading.Event

    def webhook(self) -> Webhook:
        return Webhook(self.url, timeout_s=5.0, pause_s=0.001)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def serve() -> Iterator[Callable[..., Hook]]:
    """Starts a server that answers as told."""
    servers: list[tuple[ThreadingHTTPServer, threading.Event]] = []

    def start(*answers: Answer, context: ssl.SSLContext | None = None) -> Hook:
        hook = Hook("", list(answers) or [Answer()], [], threading.Event())
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler(hook))
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        hook.url = f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}/services/{SECRET}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append((server, hook.released))
        return hook

    yield start
    for server, released in servers:
        released.set()
        server.shutdown()
        server.server_close()


def handler(hook: Hook) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.requests.append((self.path, dict(self.headers), json.loads(body)))
            answer = hook.answers.pop(0) if len(hook.answers) > 1 else hook.answers[0]
            if answer.does == "hang up":
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if answer.does == "talk nonsense":
                self.wfile.write(f"GARBAGE {self.path}\r\n\r\n".encode())
                return
            if answer.does == "stall":
                hook.released.wait(60)
                return
            if answer.does == "drip":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while not hook.released.wait(0.05):
                    self.wfile.write(b"X: y\r\n")
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def delivered(hook: Hook, **changes: Any) -> tuple[list[str], list[float]]:
    """Posts a small document; what was said of retries, and the pauses. Raises what `post` raises."""
    said: list[str] = []
    pauses: list[float] = []
    try:
        post(replace(hook.webhook(), **changes), b'{"text": "x"}', said.append, pauses.append)
    finally:
        assert not [line for line in said if "services" in line or "secret" in line]
    return said, pauses


def failure(hook: Hook, **changes: Any) -> str:
    with pytest.raises(DeliveryError) as caught:
        delivered(hook, **changes)
    assert caught.value.exit_code == 3
    text = str(caught.value)
    assert text.startswith(f"the alerts were not delivered: {hook.url.partition('/services')[0]}/… ")
    assert "services" not in text and "secret" not in text and "T0KEN" not in text
    return text


# One document, one URL.


def test_a_document_is_posted_once(serve: Callable[..., Hook]) -> None:
    hook = serve()
    assert delivered(hook) == ([], [])
    [(path, headers, body)] = hook.requests
    assert (path, body) == (f"/services/{SECRET}", {"text": "x"})
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"].startswith("turnlake/")


@pytest.mark.parametrize("status", [201, 202, 204])
def test_any_status_of_success_will_do(serve: Callable[..., Hook], status: int) -> None:
    assert delivered(serve(Answer(status, body=b""))) == ([], [])


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again_with_longer_pauses(serve: Callable[..., Hook], status: int) -> None:
    hook = serve(Answer(status), Answer(status), Answer(200))
    said, pauses = delivered(hook, pause_s=1.0)
    assert pauses == [1.0, 2.0]
    assert len(hook.requests) == 3 and len(said) == 2
    assert f"answered {status} " in said[0] and said[0].endswith("; trying again in 1 s")


def test_it_ends_after_the_last_try(serve: Callable[..., Hook]) -> None:
    hook = serve(Answer(503))
    assert failure(hook).endswith("answered 503 Service Unavailable (tried 4 times)")
    assert len(hook.requests) == TRIES


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 422])
def test_what_will_not_pass_is_not_tried_again(serve: Callable[..., Hook], status: int) -> None:
    hook = serve(Answer(status, body=b"invalid_payload"))
    assert failure(hook).endswith(", invalid_payload")
    assert len(hook.requests) == 1


@pytest.mark.parametrize("body", [f"no hook /services/{SECRET}".encode(), b"<html>", b"\x1b[2J", b"x" * 90, b""])
def test_an_answer_is_told_only_where_it_is_a_code(serve: Callable[..., Hook], body: bytes) -> None:
    assert failure(serve(Answer(404, body=body))).endswith("answered 404 Not Found")


def test_retry_after_is_obeyed(serve: Callable[..., Hook]) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=50), usegmt=True)
    past = "Wed, 21 Oct 2015 07:28:00 GMT"
    waits = ("7", soon, past, "nonsense")
    for wait, (least, most) in zip(waits, ((7, 7), (1, 50), (0, 0), (0.001, 0.001)), strict=True):
        _, [pause] = delivered(serve(Answer(429, {"Retry-After": wait}), Answer()))
        assert least <= pause <= most, wait


def test_too_long_a_pause_is_not_waited_for(serve: Callable[..., Hook]) -> None:
    hook = serve(Answer(429, {"Retry-After": str(int(LONGEST_PAUSE_S) + 3540)}, b""))
    assert failure(hook).endswith("answered 429 Too Many Requests, and wants 3,600 s of pause")
    assert len(hook.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(serve: Callable[..., Hook], status: int) -> None:
    other = serve()
    hook = serve(Answer(status, {"Location": other.url}))
    assert f"answered {status}: it redirects elsewhere" in failure(hook)
    assert (len(hook.requests), other.requests) == (1, [])


@pytest.mark.parametrize("does", ["hang up", "talk nonsense"])
def test_a_broken_answer_is_tried_again(serve: Callable[..., Hook], does: str) -> None:
    hook = serve(Answer(does=does), Answer())
    said, _ = delivered(hook)
    assert len(hook.requests) == 2 and "can't be reached: " in said[0]


@pytest.mark.parametrize("does", ["stall", "drip"])
def test_a_server_that_does_not_come_to_an_end_is_left(serve: Callable[..., Hook], does: str) -> None:
    hook = serve(Answer(does=does))
    text = failure(hook, timeout_s=0.2)
    assert text.endswith("did not answer within 0.2 s (tried 4 times)")
    # On a busy machine not each of them had time to arrive.
    assert 1 <= len(hook.requests) <= TRIES


def test_a_server_that_wakes_up_gets_it(serve: Callable[..., Hook]) -> None:
    hook = serve(Answer(does="stall"), Answer())
    assert len(delivered(hook, timeout_s=2.0)[0]) == 1


def test_a_server_that_is_not_there() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    hook = Hook(f"http://127.0.0.1:{port}/services/{SECRET}", [], [], threading.Event())
    assert failure(hook).endswith("can't be reached: Connection refused (tried 4 times)")


def test_a_host_without_an_address() -> None:
    hook = Hook(f"https://nowhere.invalid/services/{SECRET}", [], [], threading.Event())
    assert "https://nowhere.invalid/… can't be reached: " in failure(hook)


def test_a_host_that_can_not_be_one() -> None:
    hook = Hook(f"https://{'x' * 70}.example/services/{SECRET}", [], [], threading.Event())
    assert failure(hook).endswith("can't be reached: UnicodeError")


def test_an_unknown_certificate_is_refused_at_once(serve: Callable[..., Hook], tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", certificate]
    subprocess.run([*map(str, made), *subject], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    hook = serve(context=context)
    text = failure(hook)
    assert "certificate verify failed" in text and "tried" not in text
    assert hook.requests == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(certificate))
        assert delivered(hook) == ([], [])


# What names a webhook.


@pytest.mark.parametrize(
    "text",
    ["", "x", "ftp://h/secret", "file:///etc/secret", "https:///secret", "https://h:port/secret", "https://h/ secret",
     "https://h/secret\n", "https://h/secret\x00", "https://[::1/secret", "https://user:secret@h/", "https://h/#secret",
     "https://h:99999/secret", "http://é/secret", "@nowhere-secret.txt/x"],
)  # fmt: skip
def test_what_is_no_url_is_refused_and_not_told(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_webhook(text)
    assert "secret" not in str(caught.value).replace("nowhere-secret.txt", "")


def test_a_url_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://example.org/hook/secret\n")
    assert parse_webhook(f"@{tmp_path / 'url'}") == Webhook("https://example.org/hook/secret")
    (tmp_path / "url").write_text("https://example.org/a\nhttps://example.org/b\n")
    with pytest.raises(UsageError, match="wants a URL"):
        parse_webhook(f"@{tmp_path / 'url'}")
    (tmp_path / "url").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="it is no text"):
        parse_webhook(f"@{tmp_path / 'url'}")


def test_nothing_that_stands_for_a_webhook_holds_its_url() -> None:
    hook = parse_webhook(f"https://hooks.example.org/services/{SECRET}?token=s3cret")
    for text in (repr(hook), hook.shown, hook.name):
        assert "services" not in text and "s3cret" not in text
    assert hook.shown == "https://hooks.example.org/…"
    assert hook.name != parse_webhook("https://hooks.example.org/other").name


# The document.


def thing(message: str = "look", **changes: Any) -> Fired:
    fired = Fired("mine", "warning", AT, "s1", 3, message, {}, ("warning", "s1"))
    return replace(fired, **changes)


def outcome(*fired: Fired, **broken: str) -> Outcome:
    return Outcome(fired, ("mine",), broken)


def test_a_document_has_a_text_and_rows() -> None:
    document = json.loads(webhook_document(outcome(thing(details={"cost": AT, "n": 7})), UTC))
    assert document["text"] == "turnlake: 1 warning\nwarning mine 2026-09-18 12:00:00+00:00 s1 turn 3: look"
    assert document["fired"] == [
        {"alert": "mine", "severity": "warning", "at": "2026-09-18T12:00:00+00:00", "session_id": "s1", "turn": 3,
         "message": "look", "details": {"cost": "2026-09-18 12:00:00+00:00", "n": 7}}
    ]  # fmt: skip
    assert (document["counts"], document["left_out_count"]) == ({"error": 0, "warning": 1, "advisory": 0}, 0)
    assert (document["mrkdwn"], document["unfurl_links"], document["unfurl_media"]) == (False, False, False)


def test_log_text_is_no_markup_and_calls_nobody() -> None:
    hostile = thing("<!channel> & <https://evil.example|here> @everyone\nturnlake: all is well\x1b[2J")
    text = json.loads(webhook_document(outcome(hostile), UTC))["text"]
    [_, line] = text.split("\n")
    assert "&lt;!channel&gt; &amp; &lt;https://evil.example|here&gt; @\u200beveryone\\nturnlake: all" in line
    assert "\x1b" not in text


def test_a_document_is_bounded() -> None:
    fired = [thing("x" * 10_000, details={"text": "\u4e2d" * 10_000, "list": ["y"] * 5_000}) for _ in range(1_000)]
    broken = {f"b{number}": "why " * 1_000 for number in range(1_000)}
    body = webhook_document(outcome(*fired, **broken), UTC)
    document = json.loads(body)
    assert len(body) < 2 * ROWS_BYTES
    assert document["left_out_count"] + len(document["fired"]) == 1_000 and document["fired"]
    assert document["counts"]["warning"] == 1_000
    for value in (document["fired"][0]["message"], *document["fired"][0]["details"].values()):
        assert len(value) == VALUE_LENGTH and value.endswith("…")
    lines = document["text"].split("\n")
    assert len(lines) == 2 + 2 * TEXT_LINES and "and 980 more" in lines
    assert max(map(len, lines)) <= TEXT_LENGTH


def test_what_is_unknown_is_said() -> None:
    assert chat_text(outcome(thing(at=None, session_id=None, turn=None)), UTC).endswith(
        "warning mine (no time) (no session): look"
    )
    assert chat_text(outcome(mine="m.sql: why"), UTC) == "turnlake: 1 broken alert\nbroken alert m.sql: why"


# The command.


@pytest.fixture(scope="module")
def lake(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("webhook") / "lake"
    assert main(["build", str(sample), "--lake", str(lake), "--workers", "1", "-q"]) == 0
    return lake


@pytest.fixture
def alerts(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs `turnlake alerts WORDS…` with short pauses: exit code, stdout, stderr."""
    (lake / "alerts.json").unlink(missing_ok=True)
    monkeypatch.setattr(webhook, "parse_webhook", lambda text: replace(parse_webhook(text), pause_s=0.001))

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["alerts", "--lake", str(lake), *words])
        out, err = capsys.readouterr()
        assert "secret" not in out + err and "services" not in out + err
        return code, out, err

    return run


Alerts = Callable[..., tuple[int, str, str]]


def test_what_fires_is_posted(serve: Callable[..., Hook], alerts: Alerts) -> None:
    hook = serve()
    code, out, err = alerts("--webhook", hook.url, "--json", "--tz", "Europe/Berlin")
    [(_, _, body)] = hook.requests
    found = json.loads(out)
    assert code == 1 and found["counts"] == body["counts"]
    assert [row["message"] for row in found["fired"]] == [row["message"] for row in body["fired"]]
    assert all(row["at"] is None or row["at"].endswith("+02:00") for row in body["fired"])
    assert err.endswith("/… took it\n")


def test_fail_on_does_not_decide_what_is_posted(serve: Callable[..., Hook], alerts: Alerts) -> None:
    hook = serve()
    assert alerts("--webhook", hook.url, "--only", "blocked_turns", "--fail-on", "error", "-q")[0] == 0
    assert len(hook.requests) == 1


def test_nothing_is_posted_when_nothing_fires(serve: Callable[..., Hook], alerts: Alerts) -> None:
    hook = serve()
    assert alerts("--webhook", hook.url, "--since", "2026-11-01")[0] == 0
    assert hook.requests == []


def test_a_broken_alert_is_posted(serve: Callable[..., Hook], alerts: Alerts, tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text("select 1")
    hook = serve()
    assert alerts("--webhook", hook.url, "--dir", str(tmp_path), "--only", "mine")[0] == 2
    assert list(hook.requests[0][2]["broken"]) == ["mine"]


def test_a_failed_delivery_outranks_a_broken_alert(serve: Callable[..., Hook], alerts: Alerts, tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text("select 1")
    code, _, err = alerts("--webhook", serve(Answer(404)).url, "--dir", str(tmp_path), "-q")
    assert code == 3 and [line.split()[1] for line in err.splitlines()] == ["broken", "the"]


@pytest.mark.parametrize("answer", [Answer(404), Answer(503), Answer(302, {"Location": "http://127.0.0.1:9/"})])
def test_a_failing_webhook_is_no_success(serve: Callable[..., Hook], alerts: Alerts, answer: Answer) -> None:
    code, out, err = alerts("--webhook", serve(answer).url, "-q", "--fail-on", "error")
    assert code == 3 and "error_turns" in out
    [line] = err.splitlines()
    assert line.startswith("turnlake: the alerts were not delivered: http://127.0.0.1:")


def test_what_was_not_delivered_is_new_the_next_time(serve: Callable[..., Hook], alerts: Alerts) -> None:
    hook = serve(Answer(403), Answer(200))
    words = ("--webhook", hook.url, "--new-only")
    assert [alerts(*words)[0] for _ in range(3)] == [3, 1, 0]
    refused, taken = (body for _, _, body in hook.requests)
    assert refused == taken and taken["fired"]


def test_each_place_is_told_once(serve: Callable[..., Hook], alerts: Alerts) -> None:
    one, other = serve(), serve()
    for words in ([], ["--webhook", one.url], ["--webhook", other.url]):
        assert [alerts("--new-only", *words)[0] for _ in range(2)] == [1, 0]
    assert (len(one.requests), len(other.requests)) == (1, 1)


def test_the_memory_does_not_hold_the_url(serve: Callable[..., Hook], alerts: Alerts, lake: Path) -> None:
    alerts("--webhook", serve().url, "--new-only")
    content = (lake / "alerts.json").read_text()
    assert '"webhook ' in content and "127.0.0.1" not in content and "secret" not in content


def test_a_wrong_url_is_told_before_anything_is_asked(alerts: Alerts) -> None:
    assert alerts("--webhook", "example.org/secret")[:2] == (2, "")

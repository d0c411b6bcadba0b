"""One JSON document posted to one URL. The URL is a secret: no text and no exception of this module holds it whole."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from turnlake import __version__
from turnlake.errors import DeliveryError, UsageError

TRIES = 4
# Seconds that one try may take, that a first pause lasts (the next ones are twice as long each), and at most.
TIMEOUT_S = 10.0
PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0

# What an answer may say of itself: a code such as `invalid_payload`. Pages of HTML and echoed addresses are not told.
_CODE = re.compile(rb"[A-Za-z_ ]{1,60}")
_URL = re.compile(r"[!-~]+")


@dataclass(frozen=True)
class Webhook:
    """Where to post. `shown` is all of the URL that may be told."""

    url: str = field(repr=False)
    timeout_s: float = TIMEOUT_S
    pause_s: float = PAUSE_S

    @property
    def shown(self) -> str:
        """Scheme and host."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}/…"

    @property
    def name(self) -> str:
        """What tells it from others and can be stored."""
        return f"webhook {sha256(self.url.encode()).hexdigest()[:16]}"


class _Answer(NamedTuple):
    """What came of one try: a status, or none and why; whether another try makes sense, and after how long."""

    status: int | None
    why: str
    is_final: bool = False
    pause_s: float | None = None


class _NoRedirect(HTTPRedirectHandler):
    """Leads nowhere: what is posted goes to the host that was named and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def parse_webhook(text: str) -> Webhook:
    """The webhook of that URL, or of the one in FILE for `@FILE`. Raises UsageError, whose text does not hold it."""
    url = _from_file(Path(text[1:])) if text.startswith("@") else text
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or not _URL.fullmatch(url):
        raise UsageError("--webhook wants a URL such as https://example.org/hook, or @FILE for a file that holds one")
    if parts.username is not None or parts.fragment:
        raise UsageError("--webhook takes no URL with a user name or a fragment in it")
    return Webhook(url)


def post(
    webhook: Webhook,
    body: bytes,
    on_retry: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Posts a JSON document; returns once it was taken. Raises DeliveryError after the last try.

    Tries again where it may help: no connection, no answer in time, 429, 5xx. What was taken without an answer in time
    is therefore posted twice. `on_retry` is told in a line why and when.
    """
    for number in range(TRIES):
        answer = _try(webhook, body)
        if answer.status is not None and 200 <= answer.status < 300:
            return
        pause = webhook.pause_s * 2**number if answer.pause_s is None else answer.pause_s
        if answer.is_final or number + 1 == TRIES or pause > LONGEST_PAUSE_S:
            break
        on_retry(f"{webhook.shown} {answer.why}; trying again in {pause:.0f} s")
        sleep(pause)
    waits = f", and wants {pause:,.0f} s of pause" if pause > LONGEST_PAUSE_S else ""
    tries = "" if number == 0 else f" (tried {number + 1} times)"
    raise DeliveryError(f"the alerts were not delivered: {webhook.shown} {answer.why}{waits}{tries}")


def _from_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"--webhook: {path} can't be read: {why}") from error


def _try(webhook: Webhook, body: bytes) -> _Answer:
    """One try, ended when its time is over: a name server and a server that drips have no time-out of their own."""
    answer: Future[_Answer] = Future()

    def ask() -> None:
        try:
            answer.set_result(_ask(webhook, body))
        except Exception as error:  # noqa: BLE001 - raised again by whoever waits
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(webhook.timeout_s)
    except TimeoutError:
        return _late(webhook)


def _ask(webhook: Webhook, body: bytes) -> _Answer:
    headers = {"Content-Type": "application/json", "User-Agent": f"turnlake/{__version__}"}
    request = Request(webhook.url, body, headers, method="POST")
    opener = build_opener(_NoRedirect, HTTPSHandler(context=ssl.create_default_context()))
    try:
        with opener.open(request, timeout=webhook.timeout_s) as response:
            return _Answer(response.status, "took it")
    except HTTPError as error:
        with error:
            return _refusal(error)
    except (OSError, HTTPException, ValueError) as error:
        why = error.reason if isinstance(error, URLError) else error
        return _late(webhook) if isinstance(why, TimeoutError) else _no_answer(why)


def _refusal(error: HTTPError) -> _Answer:
    status = error.code
    if 300 <= status < 400:
        return _Answer(status, f"answered {status}: it redirects elsewhere, which is not followed", is_final=True)
    names = {known.value: known.phrase for known in HTTPStatus}
    code = _code(error) if status < 500 else b""
    says = f", {code.decode('ascii')}" if code else ""
    may_pass = status == HTTPStatus.TOO_MANY_REQUESTS or status >= 500
    pause = _pause(error.headers.get("Retry-After"), datetime.now(UTC))
    return _Answer(status, f"answered {status} {names.get(status, '')}".rstrip() + says, not may_pass, pause)


def _code(error: HTTPError) -> bytes:
    """The code that an answer consists of, or nothing."""
    try:
        body = error.read(100).strip()
    except (OSError, HTTPException):
        return b""
    return body if _CODE.fullmatch(body) else b""


def _no_answer(error: object) -> _Answer:
    """A failure below HTTP. Only what the system says of it is told: other texts may hold what was asked for."""
    why = getattr(error, "strerror", None) or type(error).__name__
    # A certificate, or a host that no name server can be asked for: neither will be better a second later.
    is_final = isinstance(error, ssl.SSLCertVerificationError | ValueError)
    return _Answer(None, f"can't be reached: {why}", is_final)


def _late(webhook: Webhook) -> _Answer:
    return _Answer(None, f"did not answer within {webhook.timeout_s:g} s")


def _pause(text: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After asks for, as seconds or as an instant; None where it says nothing that makes sense."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text).astimezone(UTC) - now).total_seconds())
    except (ValueError, OverflowError):
        return None

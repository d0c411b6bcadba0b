"""Secrets in a text, found by what they look like, and the text without them.

A text may be JSON, JSON inside a string of JSON, or code: it is never parsed. A match of the forms ends where a quote
or a backslash begins, so what is put in its place leaves all around it as valid as it was.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from turnlake.export.forms import BEGIN, FORMS, Form


class Found(NamedTuple):
    """A secret: where it is in the text, and the name of its form."""

    start: int
    end: int
    name: str


_NAMES = (
    r"pass(?:word|wd|phrase)|pwd|secret(?:[_-]?access)?(?:[_-]?key)?|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|encryption[_-]?key|token|credentials?"
)
ASSIGNED = "assigned"
ASSIGNED_ABOUT = (
    "what is assigned to a name that ends in `password`, `passwd`, `passphrase`, `pwd`, `secret`, `secret_key`, "
    "`api_key`, `access_key`, `private_key`, `encryption_key`, `token` or `credentials`, in any case"
)
_ASSIGNMENT = re.compile(
    rf"(?:{_NAMES})(?P<closed>\\*[\"'])?[ \t]{{0,8}}(?P<sep>=>|:=|[:=])[ \t]{{0,8}}"
    r"(?:(?P<escape>\\*)(?P<quote>[\"']))?",
    re.IGNORECASE,
)
_BARE = re.compile(r"[^\s\"'\\,;&<>(){}\[\]|]{1,4000}")
_SINGLE = re.compile(r"[^\"'\\\n]{1,4000}")
_QUOTE = re.compile(r'(?<!\\)(\\*)"')
_NEWLINE = re.compile(r"\n|\\+n")
# No secrets: placeholders, references and types.
_PLAIN_WORDS = frozenset("null none true false undefined string required optional redacted bool int".split())
# A quote followed by one of these ends a text and begins none.
_AFTER_A_TEXT = frozenset(" \t\r\n,}]:")
_PLACEHOLDER = re.compile(r"[$<{\[*%(]|(?:os|process|self|config|settings|args|env)\.")
_LEAST = 4
_LEAST_BARE = 8

CUT_OFF = "cut-off"
_CUT_OFF = re.compile(
    rf"{BEGIN}(?:sk-|AKIA|ASIA|gh[pousr]_|github_pat_|gl[a-z]{{2,5}}-|xox[a-z]-|xapp-|AIza|ya29\.|GOCSPX-|hf_|gsk_|xai-"
    r"|nvapi-|[sr]k_(?:live|test)_|whsec_|npm_|pypi-|dckr_pat_|SG\.|do[opr]_v1_|eyJ)[A-Za-z0-9_.-]{0,400}\Z"
)

# RE2's, by name: a text in which one finds nothing holds no secret of that name.
TRIGGERS = {form.name: form.trigger for form in FORMS} | {ASSIGNED: rf"(?i)(?:{_NAMES})[\\\"']*[ \t]*(?:=>|:=|[:=])"}
ABOUT = {
    **{form.name: form.about for form in FORMS},
    ASSIGNED: ASSIGNED_ABOUT,
    CUT_OFF: "the beginning of a token with one of the prefixes above, where an excerpt ends",
}


def find(text: str, names: Collection[str] = tuple(TRIGGERS)) -> list[Found]:
    """The secrets of these names in a text, in order, none touching another; of those that overlap the first names all.

    Naming only those whose trigger finds something saves most of the time.
    """
    found = [one for form in FORMS if form.name in names for one in _of_form(form, text)]
    found += _assigned(text) if ASSIGNED in names else ()
    merged: list[Found] = []
    for one in sorted(found, key=lambda one: one.start):
        if merged and one.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(one.end, merged[-1].end))
        else:
            merged.append(one)
    return merged


def find_cut_off(text: str) -> list[Found]:
    """The beginning of a secret at the very end of a text that was cut there, if it begins as one."""
    match = _CUT_OFF.search(text)
    return [Found(match.start(), len(text), CUT_OFF)] if match else []


def replaced(text: str, found: Iterable[Found]) -> str:
    """The text with a mark in place of each secret."""
    parts, at = [], 0
    for one in found:
        parts += [text[at : one.start], mark(one.name)]
        at = one.end
    return "".join((*parts, text[at:]))


def mark(name: str) -> str:
    """What stands in place of a secret."""
    return f"[REDACTED:{name}]"


def _of_form(form: Form, text: str) -> Iterator[Found]:
    for match in form.pattern.finditer(text):
        groups = [group for group in match.groupdict() if match[group] is not None]
        yield Found(*(match.span(groups[0]) if groups else match.span()), form.name)


def _assigned(text: str) -> Iterator[Found]:
    for match in _ASSIGNMENT.finditer(text):
        start = match.end()
        if match["quote"]:
            end = _end_of_quoted(text, start, match["quote"], len(match["escape"]))
            # A member of JSON ends where its quote does; in code a quote that is open at the end of a line is none.
            if not match["closed"] and (line_end := _NEWLINE.search(text, start, end)):
                end = line_end.start()
            is_secret = end - start >= _LEAST and text[start] not in _AFTER_A_TEXT
        else:
            end = _end_of(_BARE, text, start)
            is_secret = not match["closed"] and _is_bare_secret(text, start, end, match["sep"] + text[start - 1])
        value = text[start:end]
        if is_secret and value.lower() not in _PLAIN_WORDS and not _PLACEHOLDER.match(value):
            yield Found(start, end, ASSIGNED)


def _is_bare_secret(text: str, start: int, end: int, before: str) -> bool:
    """Whether a value without quotes is one: code is full of `token = next_token(…)` and `password: str`."""
    value = text[start:end]
    if text[end : end + 1] in ("(", "["):
        return False
    if before == "==":  # the sign and the character before the value: no blank between
        return len(value) >= _LEAST
    return len(value) >= _LEAST_BARE and any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _end_of_quoted(text: str, start: int, quote: str, backslashes: int) -> int:
    """Where a value ends that begins behind a quote with that many backslashes; start itself where it is none."""
    if quote == "'":
        return _end_of(_SINGLE, text, start)
    # Inside n strings of JSON, each in the next, a quote has 2**n - 1 backslashes; another number begins no text.
    if backslashes & (backslashes + 1):
        return start
    for match in _QUOTE.finditer(text, start):
        # Of the backslashes before a quote, pairs (of pairs …) are backslashes of the value; the rest is the quote's.
        own = len(match[1]) % (2 * (backslashes + 1))
        if own != 2 * backslashes + 1:
            return match.end(1) - own
    return start if text.find("\n", start) >= 0 else len(text)


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start

"""How much memory a long line would take once it is parsed: some bytes of JSON become thirty times as many.

`{},` is three bytes, and an object in a list takes over seventy. A line of text takes what it is long; so a line is
weighed only if it is long, and closely only if it holds many brackets and commas, which text in strings may too.
"""

from __future__ import annotations

import re

# Shorter lines fit into what a build takes in any case.
WEIGHED_BYTES = 8 << 20
# What values take in Python, bytes: one of a list, an object, a list, a member with its key.
VALUE, OBJECT, LIST, MEMBER = 32, 128, 64, 64
# What they may take: the promise is 700 MB and eight times the line, of which the line itself needs a part.
FREE_BYTES = 300_000_000
TIMES = 6

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def is_too_heavy(line: bytes) -> bool:
    """Whether parsing the line would take more memory than a line of its length may."""
    if len(line) < WEIGHED_BYTES:
        return False
    allowed = FREE_BYTES + TIMES * len(line)
    return _weight(line) > allowed and _weight(_STRING.sub(b"", line)) > allowed


def _weight(line: bytes) -> int:
    count = line.count
    return VALUE * count(b",") + OBJECT * count(b"{") + LIST * count(b"[") + MEMBER * count(b":")

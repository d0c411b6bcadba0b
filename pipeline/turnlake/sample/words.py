"""Words: tables of tokens to draw from, Zipf-like, so that text reads and compresses like a coding agent's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

COMMON = (
    "the of and to in is it that for on with as this be are not by from or at we can if an has but all have when will "
    "which its one so then there no now only need let me check first should also use does what more same already into "
    "file test line error change function value call case return type name path read write run fix build result state "
    "because before after between without still each other where look find found make sure likely probably instead "
    "add remove update keep move rename list table column row index query message event session step turn cache token "
    "limit retry request response server client user project module package version config option flag default empty"
).split()
CODE = (
    "self return def import from class if else for in not None True False async await raise with as try except lambda "
    "const let function export interface type string number boolean null undefined this new throw catch yield static "
    "data key value item items index count path name node parent child left right start end offset length buffer state "
    "result error request response handler callback config options context session user token query row column batch"
).split()
SYLLABLES = (
    "ka lo mi ren tas vo du pel sha nor qui bex tra gon zi fel mar ot lin sum cor dex pra hil ven tor ash bri cal mon "
    "ser tek ul wan yor eps"
).split()
# What a page of text holds beside English words: punctuation, layout, code marks, other scripts.
PROSE_MARKS = (
    *(",", ",", ",", ".", ".", ".", ".\n\n", ":", "\n- ", " `", "`", " (", ")", "'s", "s"),
    *("\u2014", "\uff0c", "\u9879\u76ee", "\u2192"),
)
CODE_MARKS = (
    *("(", ")", "(", ")", ", ", ".", ".", "\n    ", "\n        ", "\n\n", " = ", ": "),
    *("[", "]", " == ", "{", "}", ";\n", "_", '"', " # "),
)
OUTPUT_MARKS = (
    *("\n", "\n", "\n", ":", ".", "/", "/", " ", "  ", "=", " | ", "\t", "'", '"', "-", "_"),
    *("\u2713", "\u001b[31m", "\u001b[0m"),
)
# Commands repeat themselves.
OUTPUT_PHRASES = (
    "\n  PASS  tests/unit/test_",
    '\n  File "/usr/lib/python3/site-packages/',
    "\nINFO  2026-09-15T12:0",
    " passed in 0.",
    "\nwarning: unused variable: ",
    ", line ",
    "\n    at Object.<anonymous> (",
    "\n-rw-r--r-- 1 ana ana ",
)

TABLE_SIZE = 60_000


@dataclass(frozen=True)
class Vocabulary:
    """Tables of tokens; a uniform draw from one gives Zipf-like frequencies."""

    prose: Sequence[str]
    code: Sequence[str]
    output: Sequence[str]
    names: Sequence[str]
    # The tokens of `code` as they stand inside a JSON string.
    arguments: Sequence[str]

    def prose_text(self, rng: Random, count: int) -> str:
        """Prose of `count` tokens."""
        return "".join(rng.choices(self.prose, k=count)).lstrip()

    def name(self, rng: Random) -> str:
        """An identifier such as a file or a function could have."""
        return f"{rng.choice(self.names)}_{rng.choice(self.names)}"

    def path(self, rng: Random) -> str:
        """A relative path of a source file."""
        return f"{rng.choice(FOLDERS)}/{rng.choice(self.names)}/{self.name(rng)}{rng.choice(SUFFIXES)}"


FOLDERS = ("src", "src", "src", "tests", "lib", "docs", "scripts")
SUFFIXES = (".py", ".py", ".ts", ".ts", ".sql", ".md", ".toml", ".go")


def build_vocabulary(seed: int) -> Vocabulary:
    """The words of one sample; equal seeds give equal words."""
    rng = Random(f"turnlake sample words {seed}")
    names = _invented(rng, 700)
    rare = _invented(rng, 5000)
    prose = [f" {word}" for word in (*COMMON, *names[:250], *rare[:1500])]
    code = [*CODE, *(f" {word}" for word in CODE), *names, *rare[1500:2500]]
    numbers = [str(rng.randrange(10_000)) for _ in range(800)]
    hashes = [f"{rng.getrandbits(32):08x}" for _ in range(200)]
    output = [*COMMON, *names, *rare[:1000], *numbers, *hashes]
    code_table = _table(code, CODE_MARKS, 0.38)
    return Vocabulary(
        prose=_table(prose, PROSE_MARKS, 0.14),
        code=code_table,
        output=_table(output, (*OUTPUT_MARKS, *OUTPUT_PHRASES), 0.45),
        names=names,
        arguments=[_json_escaped(token) for token in code_table],
    )


def _json_escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _invented(rng: Random, count: int) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(rng.choices(SYLLABLES, k=rng.randrange(1, 5)))] = None
    return list(words)


def _table(words: Sequence[str], marks: Iterable[str], share_of_marks: float) -> list[str]:
    """Each word as often as its rank allows (1 / rank), and the marks in equal parts beside them."""
    marks = list(marks)
    table = [mark for mark in marks for _ in range(int(TABLE_SIZE * share_of_marks / len(marks)))]
    room = TABLE_SIZE - len(table)
    harmonic = sum(1 / (rank + 2) for rank in range(len(words)))
    for rank, word in enumerate(words):
        table += [word] * max(1, int(room / harmonic / (rank + 2)))
    return table

"""Secrets in many texts at once: RE2 tells in one pass which texts are worth Python's closer look."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from turnlake.export.secrets import TRIGGERS, Found, find, find_cut_off

_ANY = "|".join(f"(?:{trigger})" for trigger in TRIGGERS.values())


def find_in(texts: pa.Array) -> dict[int, list[Found]]:
    """The secrets of each text that holds some, by its index; a NULL holds none."""
    indices = pc.indices_nonzero(pc.fill_null(pc.match_substring_regex(texts, _ANY), False))
    if not len(indices):
        return {}
    suspects = texts.take(indices)
    masks = [pc.match_substring_regex(suspects, trigger).to_pylist() for trigger in TRIGGERS.values()]
    found = {}
    for index, text, *is_triggered in zip(indices.to_pylist(), suspects.to_pylist(), *masks, strict=True):
        names = [name for name, is_one in zip(TRIGGERS, is_triggered, strict=True) if is_one]
        found[index] = find(text, names)
    return {index: secrets for index, secrets in found.items() if secrets}


def find_in_cut(texts: pa.Array) -> dict[int, list[Found]]:
    """As `find_in`, of texts that may end inside a secret."""
    found = find_in(texts)
    for index, text in enumerate(texts.to_pylist()):
        secrets = found.get(index, [])
        cut_off = find_cut_off(text) if text else []
        if cut_off and (not secrets or secrets[-1].end <= cut_off[0].start):
            found[index] = secrets + cut_off
    return found

"""Texts and lists of texts of an Arrow column, changed all alike."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

Change = Callable[[pa.Array], pa.Array]


def is_text(type_: pa.DataType) -> bool:
    """Whether values of the type are texts or lists of them."""
    inner = type_.value_type if pa.types.is_list(type_) else type_
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def map_texts(values: pa.ChunkedArray, change: Change) -> pa.ChunkedArray:
    """The column with its texts changed; lists keep their lengths, NULL stays NULL.

    `change` gets an array of strings and returns one of equal length. TypeError for a column that holds no texts.
    """
    if not is_text(values.type):
        raise TypeError(f"a column of {values.type} holds no texts")
    return pa.chunked_array([_mapped(chunk, change) for chunk in values.chunks], values.type)


def _mapped(values: pa.Array, change: Change) -> pa.Array:
    if not pa.types.is_list(values.type):
        return change(values)
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    texts = change(values.flatten())
    return pa.ListArray.from_arrays(offsets, texts, type=values.type, mask=values.is_null())

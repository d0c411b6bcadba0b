"""Values that can't be changed, yet print as JSON as they are.

Objects become `Frozen`, a dict that refuses every change; arrays become tuples. Both `json.dumps` and orjson print
these two natively: orjson takes subclasses of dict, and tuples, but no subclass of tuple.
"""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(self: object, *args: object, **members: object) -> NoReturn:
    raise TypeError("what a projection gives can't be changed; make a dict of it first")


class Frozen(dict[str, Any]):
    """A JSON object whose members are frozen too. `dict(frozen)` and `frozen | {…}` give a plain dict."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> Frozen:
        return self

    def __deepcopy__(self, memo: object) -> Frozen:
        return self

    def __reduce__(self) -> tuple[type[Frozen], tuple[dict[str, Any]]]:
        return Frozen, (dict(self),)


Message = Frozen


def freeze(value: Any) -> Any:
    """A deeply frozen copy of a JSON value; what is frozen already is taken as it is."""
    kind = type(value)
    if kind is dict:
        out = Frozen(value)
        # Nearly all members are texts, and this is most of what a projection costs.
        for key, item in value.items():
            kind = type(item)
            if kind is list:
                _set(out, key, tuple([freeze(part) for part in item]))
            elif kind is not str:
                _set(out, key, freeze(item))
        return out
    if isinstance(value, (list, tuple)):
        return tuple([freeze(item) for item in value])
    return freeze(dict(value)) if isinstance(value, dict) and kind is not Frozen else value


_set = dict.__setitem__

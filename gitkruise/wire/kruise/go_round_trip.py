"""The typed round trip: what is left of a value that Go decoded into a struct and wrote again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from gitkruise.wire.kruise.go_types import TYPES
from gitkruise.wire.primitives.gojson import as_go_reads
from gitkruise.wire.primitives.times import format_time, parse_time
from gitkruise.wire.values.quantity import canonical

Codec: TypeAlias = Callable[[Any], Any]


class Malformed(ValueError):
    """A value no struct can hold: the wrong JSON type, a number out of range, a bad quantity.

    `path` leads from the value handed in to the spot; `problem` says what is wrong there.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path: tuple[str | int, ...] = ()
        self.problem = problem

    def __str__(self) -> str:
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path)
        return f"{path.lstrip('.')}: {self.problem}" if path else self.problem


def normalise(type_name: str, value: Any) -> Any:
    """`value` after a round trip through the Go struct `type_name` ("PodTemplateSpec", ...).

    Unknown fields vanish, omitempty drops zero values, structs are always written, quantities and
    times are printed again. Keys come in struct order. Raises Malformed where Go cannot decode.
    """
    return _struct(type_name, _STRICT)(value)


def settle(type_name: str, value: Any) -> Any:
    """The same as a newer API server does it: fields the table lacks stay, unset times go.

    For the kinds a cluster serves, whose types have grown since the table's release.
    """
    return _struct(type_name, _NEWER)(value)


class _Mode(NamedTuple):
    keep_unknown: bool
    write_no_time: bool  # a time that is not set is written as null


_STRICT: Final = _Mode(keep_unknown=False, write_no_time=True)
_NEWER: Final = _Mode(keep_unknown=True, write_no_time=False)


class _GoField(NamedTuple):
    name: str
    always: bool
    codec: Codec
    pointer: bool  # left out only when nil, not when zero


@cache  # types refer to each other, and to themselves
def _struct(type_name: str, mode: _Mode) -> Codec:
    fields: list[_GoField] = []  # filled on first use, so that types may mention each other
    names = frozenset(name for name, _, _ in TYPES[type_name])

    def round_trip(value: Any) -> dict[str, Any]:
        if value is not None and not isinstance(value, (dict, Mapping)):
            raise Malformed(f"cannot unmarshal {go_name(value)} into a {type_name}")
        if not fields:
            fields.extend(_fields(type_name, mode))
        given = value or {}
        out: dict[str, Any] = {}
        for name, always, codec, pointer in fields:
            raw = given.get(name)
            if raw is None and not always:
                continue
            try:
                held = codec(raw)
            except Malformed as error:
                error.path = (name, *error.path)
                raise
            if always or (held is not None if pointer else held):
                out[name] = held
        if mode.keep_unknown and not names.issuperset(given):
            out |= {k: v for k, v in given.items() if v is not None and k not in names}
        return out

    return round_trip


def _fields(type_name: str, mode: _Mode) -> list[_GoField]:
    return [
        _GoField(
            name,
            (always and (mode.write_no_time or kind != "Time")) or kind in TYPES,
            _codec(kind, mode),
            kind.startswith("*"),
        )
        for name, always, kind in TYPES[type_name]
    ]


def _codec(kind: str, mode: _Mode) -> Codec:
    if kind.startswith("*"):
        target = _codec(kind[1:], mode)
        return lambda value: None if value is None else target(value)
    if kind.startswith("[]"):
        return _list(_codec(kind[2:], mode))
    if kind.startswith("map<"):
        return _map(_codec(kind[4:-1], mode))
    return _SCALARS[kind] if kind in _SCALARS else _struct(kind, mode)


def _list(element: Codec) -> Codec:
    def round_trip(value: Any) -> list[Any] | None:
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise Malformed(f"cannot unmarshal {go_name(value)} into a list")
        out = []
        for index, item in enumerate(value):
            try:
                out.append(element(item))
            except Malformed as error:
                error.path = (index, *error.path)
                raise
        return out

    return round_trip


def _map(element: Codec) -> Codec:
    def round_trip(value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise Malformed(f"cannot unmarshal {go_name(value)} into a map")
        out = {}
        for key, item in sorted(value.items()):  # Go writes maps in key order
            try:
                out[as_go_reads(key)] = element(item)
            except Malformed as error:
                error.path = (key, *error.path)
                raise
        return out

    return round_trip


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Malformed(f"cannot unmarshal {go_name(value)} into a string")
    return as_go_reads(value)


def _bool(value: Any) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        raise Malformed(f"cannot unmarshal {go_name(value)} into a boolean")
    return value


def _integer(bits: int) -> Codec:
    limit = 1 << (bits - 1)

    def round_trip(value: Any) -> int:
        if value is None:
            return 0
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise Malformed(f"cannot unmarshal {go_name(value)} into an int{bits}")
        if not -limit <= value < limit:
            raise Malformed(f"cannot unmarshal number {value} into an int{bits}")
        return value

    return round_trip


_int32: Final = _integer(32)


def _int_or_string(value: Any) -> int | str:
    return as_go_reads(value) if isinstance(value, str) else _int32(value)


def _quantity(value: Any) -> str:
    if value is None:
        return "0"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Malformed(f"cannot unmarshal {go_name(value)} into a quantity")
    try:
        return canonical(value)
    except ValueError as error:
        raise Malformed(str(error)) from error


def _time(value: Any) -> str | None:
    if not isinstance(value, str | None):
        raise Malformed(f"cannot unmarshal {go_name(value)} into a time")
    try:
        instant = parse_time(value)
    except ValueError as error:
        raise Malformed(f"parsing time {value!r}: {error}") from error
    return format_time(instant) if instant else None


def _as_it_is(value: Any) -> Any:
    return value


_SCALARS: Final[dict[str, Codec]] = {
    "str": _text,
    "bool": _bool,
    "i32": _int32,
    "i64": _integer(64),
    "Time": _time,
    "Qty": _quantity,
    "IntOrStr": _int_or_string,
    "RawJSON": _as_it_is,
}


def go_name(value: Any) -> str:
    """The JSON type of a value, by the word of Go's decoder."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "object" if isinstance(value, Mapping) else "array"

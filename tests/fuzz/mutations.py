"""Mutations of JSON documents: wrong types at any depth, extremes, missing and repeated parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random  # noqa: TID251  drawn from the seed of the run
from typing import Any, Final

# Values that a field of any type may be replaced with.
EXTREMES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, -(2**70), 1.5, -0.0, 1e300, "", "x", "101%", "5"),
    *("a\u0000b", "\x1b[31mred", "\x9b2J", "\u202eevil", "a\nb", "../..", "*", "\ud7ff", "1e999"),
    *("9" * 400, "NaN", "-1", "2026-13-45T99:99:99Z", "2026-01-01T00:00:00Z", "a" * 300, "1h", "%"),
    *("0x10", "true", "null", "{", "$(x)", "a=b", "a in (b", "1Ei", "-5Gi", "12e9999", "0.0.0.0"),
    *([], [None], [[]], [{}], [""], ["a", "a"], [1, 2], [True], {}, {"a": None}, {"": ""}),
    *(
        {"a": {"b": {"c": []}}},
        {"x": 1, "y": [1]},
        {"name": {}},
        {"matchLabels": []},
        [{"name": 1}],
    ),
)
DEEP: Final = (150, 190, 230, 1_200, 20_000)
BROKEN: Final = (
    *(b"", b"null", b"[]", b'"x"', b"1", b"{", b"{]", b"NaN", b'{"a":NaN}', b'{"a":1e999}'),
    *(b"\xff\xfe", b"k8s\x00", b"k8s\x00\x0a\x02v1", b"\xa1ax\x01", b"\xd9\xd9\xf7\xa0"),
    *(b'{"a":1,"a":2}', b'{"metadata":{"name":"a","name":"b"}}', b'{"\\ud800":1}', b"a: &x [*x]"),
    *(b"- a\n- b\n", b"a: b\n---\nc: d\n", b"? {a: b}\n: c\n", b"{a: !!python/object:os.x {}}"),
)


def mutated(draw: Random, document: Any, *, most: int = 3) -> Any:
    """A copy of a document with one to `most` mutations."""
    held = {"": _copy(document)}
    for _ in range(min(draw.randint(1, most), draw.randint(1, most))):
        if not held:
            break
        parent, key = draw.choice(list(_places(held)))
        _MUTATIONS[draw.randrange(len(_MUTATIONS))](draw, parent, key)
    return held.get("", {})


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a document; the document itself is the first."""
    stack = [value]
    while stack:
        top = stack.pop()
        for key in list(top) if isinstance(top, dict) else range(len(top)):
            yield top, key
            if isinstance(top[key], dict | list):
                stack.append(top[key])


def _replace(draw: Random, parent: Any, key: Any) -> None:
    parent[key] = _copy(draw.choice(EXTREMES))


def _vary(draw: Random, parent: Any, key: Any) -> None:
    """Another value of the same type, so that decoding lets it pass."""
    alike = [value for value in EXTREMES if type(value) is type(parent[key])]
    if alike:
        parent[key] = _copy(draw.choice(alike))


def _drop(draw: Random, parent: Any, key: Any) -> None:
    del parent[key]


def _wrap(draw: Random, parent: Any, key: Any) -> None:
    parent[key] = draw.choice(([parent[key]], {"a": parent[key]}, [parent[key]] * 2))


def _rename(draw: Random, parent: Any, key: Any) -> None:
    if isinstance(parent, dict):
        name = draw.choice(
            ("x", "", "\x1b]0;a\x07", "a.b/c/d", "name", "a" * 70, key + "s", "$ref")
        )
        parent[name] = parent.pop(key)


def _graft(draw: Random, parent: Any, key: Any) -> None:
    """Put another part of the same document here."""
    other, at = draw.choice(list(_places({"": parent})))
    parent[key] = _copy(other[at])


def _add(draw: Random, parent: Any, key: Any) -> None:
    value = _copy(draw.choice(EXTREMES))
    if isinstance(parent[key], dict):
        parent[key][draw.choice(("x", "name", "status", "metadata", "spec", "", "uid"))] = value
    elif isinstance(parent[key], list):
        parent[key].append(value)
    else:
        parent[key] = value


_MUTATIONS: Final = (
    *(_replace, _replace, _vary, _vary, _vary, _drop, _drop, _wrap, _rename, _graft, _add),
)


def _copy(value: Any) -> Any:
    """A copy that may be changed in place."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list | tuple) else value


def nested(draw: Random) -> bytes:
    """Deep JSON: lists or maps in each other."""
    depth = draw.choice(DEEP)
    opening, closing = draw.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return opening * depth + b"1" + closing * depth


def corrupted(draw: Random, data: bytes) -> bytes:
    """A few bytes of a text flipped, dropped or repeated."""
    text = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        if text:
            at = draw.randrange(len(text))
            text[at : at + draw.randint(0, 2)] = bytes(
                draw.randrange(256) for _ in range(draw.randint(0, 3))
            )
    return bytes(text)


def written(draw: Random, document: Any) -> bytes:
    """A document as JSON, now and then with NaN and lone surrogates as Python writes them."""
    return json.dumps(document, ensure_ascii=draw.random() < 0.9).encode(errors="surrogatepass")

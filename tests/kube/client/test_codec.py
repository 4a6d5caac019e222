"""JSON in and out: revision data keeps its bytes, bad bytes are refused."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from gitkruise.errors import InternalError
from gitkruise.kube.client.codec import decode, decode_event, encode
from gitkruise.kube.client.rawobject import RawObject, meta_of, thaw
from gitkruise.wire.primitives.gojson import RawJSON

DATA = b'{"spec": {"b":1.0,  "a":"\\u003cx\\u003e", "c":[ ]}}'
REVISION = b'{"apiVersion":"apps/v1","kind":"ControllerRevision","data":' + DATA + b',"revision":3}'


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (REVISION, ("data",)),
        (
            b'{"kind":"ControllerRevisionList","items":[{"data":' + DATA + b'},{"data":null}]}',
            ("items", 0, "data"),
        ),
        (b'{"kind":"List","items":[{"kind":"Pod"},' + REVISION + b"]}", ("items", 1, "data")),
        (b'{"type":"ADDED","object":' + REVISION + b"}", ("object", "data")),
    ],
    ids=["alone", "in its list", "in a mixed list", "in a watch event"],
)
def test_revision_data_keeps_its_bytes(text: bytes, path: tuple[str | int, ...]) -> None:
    value: Any = decode(text)
    for step in path:
        value = value[step]
    assert type(value) is RawJSON
    assert value == DATA
    assert encode({"data": value}) == b'{"data":' + DATA + b"}"


def test_data_of_other_kinds_is_decoded() -> None:
    text = b'{"kind":"ConfigMap","data":{"about":"ControllerRevision"}}'
    assert decode(text)["data"] == {"about": "ControllerRevision"}


def test_raw_newlines_never_reach_the_wire() -> None:
    assert encode({"data": RawJSON(b'{\n "a": "x y",\r\n "b": "\\n"}')}) == (
        b'{"data":{"a":"x y","b":"\\n"}}'
    )


def test_frozen_objects_are_encoded() -> None:
    assert encode(MappingProxyType({"a": (1, 2)})) == b'{"a":[1,2]}'


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b'{"a":1}x', b'{"a":"\xff"}', b"[" * 100_000, b"NaN", b"<html>"],
    ids=["empty", "cut", "trailing", "not utf-8", "deep", "nan", "html"],
)
def test_bad_bytes_are_value_errors(text: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        decode(text)


def test_an_unknown_event_is_refused() -> None:
    assert decode_event(b'{"type":"ADDED","object":{"a":1}}').object == {"a": 1}
    with pytest.raises(InternalError):
        decode_event(b'{"type":"SURPRISE","object":{}}')


def test_a_raw_object_reads_like_a_dict() -> None:
    raw = RawObject(b'{"metadata":{"name":"a","uid":"u"}}', api_version="v1", kind="Pod")
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "u"}}
    assert dict(raw) == plain
    assert thaw(raw) == plain
    assert meta_of(raw) == meta_of(plain)

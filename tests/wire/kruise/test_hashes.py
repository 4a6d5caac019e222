"""Hashes agree with FNV's published sums and with names Kubernetes gave."""

from __future__ import annotations

import pytest

from gitkruise.wire.kruise.hashes import (
    dump_hash,
    fnv1_32,
    fnv1a_32,
    revision_hash,
    revision_name,
    safe_encode,
)


@pytest.mark.parametrize(
    ("data", "fnv1", "fnv1a"),
    [
        (b"", 0x811C9DC5, 0x811C9DC5),
        (b"a", 0x050C5D7E, 0xE40C292C),
        (b"foobar", 0x31F0B262, 0xBF9CF968),
    ],
)
def test_published_sums(data: bytes, fnv1: int, fnv1a: int) -> None:
    assert fnv1_32(data) == fnv1
    assert fnv1a_32(data) == fnv1a


def test_each_digit_has_its_letter() -> None:
    assert safe_encode("0123456789") == "456789bcdf"


def test_the_collision_count_is_part_of_the_hash() -> None:
    assert revision_hash(b"{}", 10) == "7f9c96b658"
    assert revision_hash(b"{}", 0) != revision_hash(b"{}", 1)


@pytest.mark.parametrize(
    ("claims", "total"),
    [
        (
            (
                '[{"metadata":{"name":"data-vol","creationTimestamp":null},"spec":{"accessModes":'
                '["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}},"status":{}}]'
            ),
            4001351501,
        ),
        ("null", 86995377),
    ],
)
def test_bytes_are_hashed_as_go_dumps_them(claims: str, total: int) -> None:
    assert dump_hash(claims.encode()) == total


@pytest.mark.parametrize(
    ("owner", "kept"),
    [("web", "web"), ("a" * 223, "a" * 223), ("a" * 224, "a" * 223), ("a" * 253, "a" * 223)],
)
def test_long_names_are_cut(owner: str, kept: str) -> None:
    assert revision_name(owner, "5fcb4ccfb4") == f"{kept}-5fcb4ccfb4"

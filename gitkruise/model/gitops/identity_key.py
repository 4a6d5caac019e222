"""A value known by identity: the key of what is remembered about objects that never change."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class IdentityKey(Generic[T]):
    """Equal to another only when both hold the very same object, whatever that equals.

    It keeps the object, so that no other can take its place in memory.
    """

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return other.__class__ is IdentityKey and other.value is self.value

"""Unread bytes of all watches together are bounded."""

from __future__ import annotations

from dataclasses import dataclass

from gitkruise.sandbox.backend.watch_fanout import Owed


@dataclass(eq=False)
class Deaf:
    """A reader that takes nothing until it is set free."""

    keeps_up: bool = False
    gone: bool = False

    def take(self, data: bytes) -> None:
        del data

    def let_go(self) -> None:
        self.gone = True


def test_those_at_it_longest_go_at_the_bound() -> None:
    owed, readers = Owed(most=100), [Deaf() for _ in range(30)]
    for reader in readers:
        owed.add(reader, 10)
        assert owed.total <= 100
    assert [one.gone for one in readers] == [True] * 20 + [False] * 10


def test_who_reads_stays() -> None:
    owed, slow, quick = Owed(most=100), Deaf(), Deaf()
    owed.add(quick, 60)
    quick.keeps_up = True
    owed.add(slow, 60)
    assert [quick.gone, slow.gone] == [False, False]
    assert owed.total == 60
    owed.paid(slow)
    owed.paid(slow)
    assert owed.total == 0


def test_one_that_is_too_much_goes() -> None:
    owed, reader = Owed(most=100), Deaf()
    owed.add(reader, 101)
    assert reader.gone
    assert owed.total == 0

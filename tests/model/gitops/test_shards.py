"""Shards: the same for every process, and moved as little as possible."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.gitops.shards import WHOLE, Shard, quota, shard_of
from gitkruise.wire.primitives.names import ObjectKey

Holders = dict[int, str]  # by shard


def settled(holders: Holders, members: list[str], shards: int) -> Holders:
    """Who holds which shard once each member, in turn, has seen the leases often enough."""
    found = {shard: who for shard, who in holders.items() if who in members}
    for _ in range(shards + 1):
        for me in members:
            held = {member: Counter(found.values())[member] for member in members}
            limit = quota(me, held, shards)
            mine = sorted(shard for shard, who in found.items() if who == me)
            for shard in mine[limit:]:
                del found[shard]
            free = [shard for shard in range(shards) if shard not in found]
            found |= dict.fromkeys(free[: max(limit - len(mine), 0)], me)
    return found


@pytest.mark.parametrize(
    ("name", "shard"),
    [("shop/web", 1), ("shop/api", 2), ("shop/db", 0), ("pay/web", 2), ("über/größe", 1)],
)
def test_a_name_has_the_same_shard_in_every_version(name: str, shard: int) -> None:
    assert shard_of(name, 3) == shard


def test_units_spread_evenly() -> None:
    counts = Counter(shard_of(f"team-{n % 40}/app-{n}", 3) for n in range(3_000))
    assert all(950 < count < 1_050 for count in counts.values())


def test_one_shard_is_everything() -> None:
    assert WHOLE.owns("shop/web")
    assert WHOLE.drives(ObjectKey("apps.kruise.io", "CloneSet", "shop", "web"))


@given(st.text(), st.integers(1, 32))
def test_every_name_belongs_to_exactly_one_shard(name: str, count: int) -> None:
    assert sum(Shard(number, count).owns(name) for number in range(count)) == 1


@given(st.text(min_size=1), st.text(), st.text(), st.integers(1, 32))
def test_a_namespace_is_driven_by_one_shard(
    namespace: str, one: str, other: str, count: int
) -> None:
    keys = [ObjectKey("", "Pod", namespace, one), ObjectKey("apps", "Deployment", namespace, other)]
    for number in range(count):
        shard = Shard(number, count)
        assert shard.drives(keys[0]) == shard.drives(keys[1])


def test_whatever_writes_the_images_of_nodes_is_driven_together() -> None:
    keys = [
        ObjectKey("apps.kruise.io", "ImagePullJob", "shop", "pull"),
        ObjectKey("apps.kruise.io", "NodeImage", "", "node-7"),
        ObjectKey("", "Node", "", "node-7"),
    ]
    assert all(Shard(0, 5).drives(key) for key in keys)


@given(st.integers(1, 12), st.integers(1, 12))
def test_shares_differ_by_one_at_most_and_every_shard_is_held(shards: int, members: int) -> None:
    names = [f"m{number}" for number in range(members)]
    found = settled({}, names, shards)
    assert sorted(found) == list(range(shards))
    counts = [Counter(found.values())[name] for name in names]
    assert max(counts) - min(counts) <= 1


@given(st.integers(1, 12), st.integers(1, 11), st.text("abc", min_size=1))
def test_who_joins_moves_its_own_share_and_no_other(shards: int, members: int, name: str) -> None:
    before = [f"m{number}" for number in range(members)]
    old = settled({}, before, shards)
    new = settled(old, [*before, name], shards)
    moved = {shard for shard in old if new[shard] != old[shard]}
    assert all(new[shard] == name for shard in moved)
    assert len(moved) == shards // (members + 1)


@given(st.integers(1, 12), st.integers(2, 12), st.integers(0, 11))
def test_who_leaves_moves_its_own_share_and_no_other(shards: int, members: int, which: int) -> None:
    before = [f"m{number}" for number in range(members)]
    gone = before[which % members]
    old = settled({}, before, shards)
    new = settled(old, [name for name in before if name != gone], shards)
    assert {shard for shard in old if new[shard] != old[shard]} == {
        shard for shard, who in old.items() if who == gone
    }

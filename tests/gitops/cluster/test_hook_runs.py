"""For which content hooks ran is remembered in the cluster, across processes and names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from gitkruise.errors import Conflict, Forbidden, Unavailable
from gitkruise.gitops.cluster.hook_runs import HOOKS, HookRuns
from gitkruise.gitops.cluster.lease_annotation import LeaseAnnotation
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.kube.cache.leader_election import LEASES
from gitkruise.wire.primitives.requests import ApiRequest
from tests.kube.toy import Fault, Toy

A, B = "shop/a", "shop/b"


class Memory:
    """A process that remembers in `toy`."""

    def __init__(self, toy: Toy, cluster: str = "test") -> None:
        self.authority = WriteAuthority()
        lease = LeaseAnnotation(
            transport=toy,
            namespace="kube-system",
            name="gitkruise-sync-units",
            annotation=HOOKS,
            cluster=cluster,
        )
        self.runs = HookRuns(lease, self.authority)

    def ran(self, unit: str, content: str) -> bool:
        found: bool = play(self.runs.ran(unit, content))
        return found

    def note(self, unit: str, content: str) -> None:
        play(self.runs.note(unit, content))


def play(work: Awaitable[Any]) -> Any:
    async def main() -> Any:
        return await work

    return asyncio.run(main())


def test_a_later_process_knows_what_ran() -> None:
    toy = Toy()
    first = Memory(toy)
    assert not first.ran(A, "1")
    first.note(A, "1")
    first.note(B, "2")
    later = Memory(toy)
    assert (later.ran(A, "1"), later.ran(A, "2"), later.ran(B, "2")) == (True, False, True)
    later.note(A, "3")
    assert (later.ran(A, "1"), later.ran(A, "3"), later.ran(B, "2")) == (False, True, True)


def test_what_is_known_costs_no_request() -> None:
    toy = Toy()
    memory = Memory(toy)
    memory.note(A, "1")
    toy.requests.clear()
    memory.note(A, "1")
    assert memory.ran(A, "1")
    assert not memory.ran(A, "")
    assert toy.requests == []


def test_clusters_of_other_names_have_a_memory_of_their_own() -> None:
    toy = Toy()
    Memory(toy, "one").note(A, "1")
    Memory(toy, "two").note(A, "2")
    assert Memory(toy, "one").ran(A, "1")
    assert Memory(toy, "two").ran(A, "2")


def test_a_new_term_reads_what_another_process_left() -> None:
    toy = Toy()
    memory, other = Memory(toy), Memory(toy)
    memory.note(A, "1")
    other.note(A, "2")
    memory.authority.term += 1
    assert memory.ran(A, "2")


def test_another_process_writes_in_between() -> None:
    toy = Toy()
    memory = Memory(toy)
    memory.note(A, "1")
    Memory(toy).note(B, "2")
    toy.faults = [Fault("update", Conflict("newer"))]
    memory.note(A, "3")
    assert memory.ran(B, "2")
    assert Memory(toy).ran(A, "3")


def test_a_unit_that_ended_is_forgotten() -> None:
    toy = Toy()
    memory = Memory(toy)
    memory.note(A, "1")
    memory.note(B, "1")
    play(memory.runs.forget(A))
    assert (Memory(toy).ran(A, "1"), Memory(toy).ran(B, "1")) == (False, True)


def test_without_the_right_it_lasts_as_long_as_the_process() -> None:
    toy = Toy()
    toy.faults = [Fault("get", Forbidden("no")), Fault("get", Forbidden("no"))]
    memory = Memory(toy)
    memory.note(A, "1")
    assert memory.ran(A, "1")
    assert not Memory(toy).ran(A, "1")


def test_a_cluster_that_does_not_answer_is_asked_again() -> None:
    toy = Toy()
    Memory(toy).note(A, "1")
    toy.faults = [Fault("get", Unavailable("later"))]
    memory = Memory(toy)
    with pytest.raises(Unavailable):
        memory.ran(A, "1")
    assert memory.ran(A, "1")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"test": []}', '{"test": {"shop/a": 1}}'])
def test_what_cannot_be_read_is_not_known(text: str) -> None:
    toy = Toy()
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "gitkruise-sync-units", "annotations": {HOOKS: text}},
    }
    toy.do(ApiRequest(verb="create", resource=LEASES, namespace="kube-system", body=lease))
    assert not Memory(toy).ran(A, "1")
    Memory(toy).note(A, "1")
    assert Memory(toy).ran(A, "1")

"""A real cluster asks for the subset of a new pod, and it is recorded before the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import Conflict
from gitkruise.model.planning.workload_spread import MATCHED
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from tests.webhook.hooked import Hooked, hooked, patched, review
from tests.worlds import SPACE, Lab, cloneset, deployment, spread, subset

Script = Callable[[Hooked], Awaitable[None]]


def lab_of(*subsets: Obj, workload: Obj | None = None) -> Lab:
    """A cluster with a workload and its WorkloadSpread in which nothing runs by itself."""
    lab = Lab(nodes=0, parts=())
    chosen = workload or cloneset()
    lab.apply(chosen)
    lab.apply(spread("zones", *subsets, kind=chosen["kind"]))
    return lab


def asked(lab: Lab, folder: Path, script: Script, gates: Gates | None = None) -> None:
    async def main() -> None:
        async with hooked(folder, lab.world, gates=gates) as hooks:
            await script(hooks)

    asyncio.run(main())


def owned_by(owner: Obj, name: str = "", **labels: str) -> dict[str, Any]:
    ref = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"].get("uid", "u"),
        "controller": True,
    }
    meta: dict[str, Any] = {
        "labels": {"app": "web", **labels},
        "ownerReferences": [ref],
        **({"name": name} if name else {"generateName": "web-"}),
    }
    spec = {"containers": [{"name": "app", "image": "app:v1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def match(pod: Obj, answer: Obj) -> Any:
    assert answer["allowed"], answer
    notes = patched(pod, answer)["metadata"].get("annotations", {})
    return json.loads(notes.get(MATCHED, "null"))


def records(lab: Lab, version: str = "versionIgnored") -> list[tuple[int, list[str], list[str]]]:
    """(missingReplicas, creatingPods, deletingPods) of each subset."""
    listed = lab.get(spread())["status"]["versionedSubsetStatuses"][version]
    return [
        (
            one["missingReplicas"],
            list(one.get("creatingPods", ())),
            list(one.get("deletingPods", ())),
        )
        for one in listed
    ]


def test_ws_24_35_a_pod_without_a_name_is_recorded_by_the_review(tmp_path: Path) -> None:
    lab = lab_of(subset("a", 1, zone="zone-a"), subset("b"))
    pod = owned_by(cloneset())

    async def script(hooks: Hooked) -> None:
        tried = await hooks.ask("/mutate", review(pod, uid="try", dryRun=True))
        assert match(pod, tried)["subset"] == "a"
        assert "status" not in lab.get(spread())
        first = await hooks.ask("/mutate", review(pod, uid="one"))
        assert match(pod, first) == {"name": "zones", "subset": "a", "uid": "one"}
        made = patched(pod, first)
        affinity = made["spec"]["affinity"]["nodeAffinity"]
        assert list(affinity) == ["requiredDuringSchedulingIgnoredDuringExecution"]
        assert records(lab) == [(0, ["one"], []), (-1, [], [])]
        second = await hooks.ask("/mutate", review(pod, uid="two"))
        assert match(pod, second) == {"name": "zones", "subset": "b"}

    asked(lab, tmp_path, script)


def test_spread_16_pods_that_are_created_at_a_time(tmp_path: Path) -> None:
    lab = lab_of(subset("a", 3), subset("b"))

    async def script(hooks: Hooked) -> None:
        pods = [owned_by(cloneset(), f"p{n}") for n in range(8)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(hooks.ask("/mutate", review(pod))) for pod in pods]
        found = [match(p, task.result())["subset"] for p, task in zip(pods, tasks, strict=True)]
        assert sorted(found) == ["a"] * 3 + ["b"] * 5

    asked(lab, tmp_path, script)


def test_ws_20_21_a_deployment_is_found_through_its_replicaset(tmp_path: Path) -> None:
    lab = lab_of(subset("a", "40%"), subset("b", "60%"), workload=deployment(replicas=5))
    lab.run(5)
    pod = lab.pods()[0]
    labels = pod["metadata"]["labels"]
    (owner,) = pod["metadata"]["ownerReferences"]
    fresh = owned_by({**owner, "metadata": owner}, **{**labels, "pod-template-hash": "next"})

    async def script(hooks: Hooked) -> None:
        answer = await hooks.ask("/mutate", review(fresh, uid="one"))
        assert match(fresh, answer)["subset"] == "a"
        assert [one[0] for one in records(lab, "next")] == [1, 3], "WS-23, percentages of 5"

    asked(lab, tmp_path, script)


def test_ws_27_others_are_faster_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = lab_of(subset("a", 1), subset("b"))
    pod = owned_by(cloneset(), "p")
    writes: list[ApiRequest] = []

    async def script(hooks: Hooked) -> None:
        send = hooks.transport.send

        async def slow(request: ApiRequest) -> ApiReply:
            if request.verb == "update" and request.resource.plural == "workloadspreads":
                writes.append(request)
                raise Conflict("another was faster")
            return await send(request)

        monkeypatch.setattr(hooks.transport, "send", slow)
        answer = await hooks.ask("/mutate", review(pod))
        assert (answer["allowed"], answer["status"]["code"]) == (False, 409)
        assert (
            "couldn't update WorkloadSpread zones due to conflicts" in answer["status"]["message"]
        )
        assert len(writes) == 4

    asked(lab, tmp_path, script)


def test_ws_40_41_deletions_and_evictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(nodes=3)
    lab.apply(spread("zones", subset("a", 5)))
    lab.apply(cloneset())
    lab.run(60)
    first, second, third, *_ = lab.pods()
    names = [one["metadata"]["name"] for one in (first, second, third)]

    def deletion(pod: Obj, **changes: Any) -> dict[str, Any]:
        where = {"operation": "DELETE", "name": pod["metadata"]["name"], "namespace": SPACE}
        return review(None, pod, **{**where, **changes})

    async def script(hooks: Hooked) -> None:
        assert (await hooks.ask("/validate", deletion(first, dryRun=True)))["allowed"]
        assert records(lab) == [(0, [], [])]
        assert (await hooks.ask("/validate", deletion(first)))["allowed"]
        assert records(lab) == [(1, [], names[:1])]
        meta = {"name": names[1], "namespace": SPACE}
        evicted = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        asking = review(evicted, namespace=SPACE, name=names[1], subResource="eviction")
        assert (await hooks.ask("/validate", asking))["allowed"]
        assert records(lab) == [(2, [], sorted(names[:2]))]
        send = hooks.transport.send

        async def refusing(request: ApiRequest) -> ApiReply:
            if request.verb == "update":
                raise Conflict("another was faster")
            return await send(request)

        monkeypatch.setattr(hooks.transport, "send", refusing)
        assert (await hooks.ask("/validate", deletion(third)))["allowed"], "WS-41"

    asked(lab, tmp_path, script)


def test_spread_15_pods_pass_unchanged_while_the_gate_is_off(tmp_path: Path) -> None:
    lab = lab_of(subset("a", 1), subset("b"))
    pod = owned_by(cloneset(), "p")

    async def script(hooks: Hooked) -> None:
        assert match(pod, await hooks.ask("/mutate", review(pod))) is None
        assert "status" not in lab.get(spread())

    asked(lab, tmp_path, script, Gates(workload_spread=False))


def test_pods_of_others_are_left_alone(tmp_path: Path) -> None:
    lab = lab_of(subset("a"))
    other = cloneset("other")
    pod = owned_by(other, "p")

    async def script(hooks: Hooked) -> None:
        assert match(pod, await hooks.ask("/mutate", review(pod))) is None

    asked(lab, tmp_path, script)

"""A real cluster asks before a protected pod is deleted, evicted or updated, and we record it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.errors import Conflict
from gitkruise.model.planning.unavailable_budget import RELATED, RELATED_LEGACY
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from tests.webhook.hooked import Hooked, hooked, patched, review
from tests.worlds import SPACE, Lab, budget, cloneset, deployment

BOTH: Final = Gates(pod_unavailable_budget_update_gate=True)
REFUSED: Final = (
    'podunavailablebudget.policy.kruise.io "keep" is forbidden: pub unavailable allowed is negative'
)


def lab_of(replicas: int, **spec: Any) -> Lab:
    lab = Lab()
    lab.apply(cloneset(replicas=replicas))
    lab.apply(budget(**spec))
    lab.run(60)
    return lab


def asked(
    lab: Lab,
    folder: Path,
    script: Callable[[Hooked], Awaitable[None]],
    gates: Gates | None = None,
) -> None:
    async def main() -> None:
        async with hooked(folder, lab.world, gates=gates) as hooks:
            await script(hooks)

    asyncio.run(main())


def deletion(pod: Obj, **changes: Any) -> dict[str, Any]:
    name = pod["metadata"]["name"]
    return review(None, pod, **{"operation": "DELETE", "name": name, "namespace": SPACE, **changes})


def eviction(pod: Obj, **options: Any) -> dict[str, Any]:
    name = pod["metadata"]["name"]
    obj = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": SPACE},
        **({"deleteOptions": options} if options else {}),
    }
    return review(obj, namespace=SPACE, name=name, subResource="eviction")


def update(pod: Obj, image: str = "app:v2") -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    spec = {**pod["spec"], "containers": [{**container, "image": image}]}
    return review({**pod, "spec": spec}, pod, namespace=SPACE)


def records(lab: Lab, name: str) -> list[str]:
    return list(lab.get(budget())["status"].get(name) or ())


def verdict(answer: Obj) -> str:
    if answer["allowed"]:
        return ""
    assert answer["status"]["code"] == 403
    return str(answer["status"]["message"])


def test_budget_24_the_second_deletion_is_refused(tmp_path: Path) -> None:
    lab = lab_of(3, maxUnavailable=1)
    first, second, _ = lab.pods()

    async def script(hooks: Hooked) -> None:
        assert verdict(await hooks.ask("/validate", deletion(first, dryRun=True))) == ""
        assert records(lab, "disruptedPods") == []
        assert verdict(await hooks.ask("/validate", deletion(first))) == ""
        assert records(lab, "disruptedPods") == [first["metadata"]["name"]]
        assert verdict(await hooks.ask("/validate", deletion(second))) == REFUSED
        assert verdict(await hooks.ask("/validate", deletion(first))) == ""

    asked(lab, tmp_path, script)


def test_budget_20_an_eviction(tmp_path: Path) -> None:
    lab = lab_of(3, maxUnavailable=1)
    first, second, _ = lab.pods()

    async def script(hooks: Hooked) -> None:
        assert verdict(await hooks.ask("/validate", eviction(first, dryRun=["All"]))) == ""
        assert records(lab, "disruptedPods") == []
        assert verdict(await hooks.ask("/validate", eviction(first))) == ""
        assert verdict(await hooks.ask("/validate", eviction(second))) == REFUSED
        gone = {**second, "metadata": {**second["metadata"], "name": "gone"}}
        assert verdict(await hooks.ask("/validate", eviction(gone))) == ""

    asked(lab, tmp_path, script)


def test_budget_28_29_an_update(tmp_path: Path) -> None:
    lab = lab_of(2, minAvailable=2)
    pod = lab.pods()[0]

    async def passes(hooks: Hooked) -> None:
        assert verdict(await hooks.ask("/validate", update(pod))) == ""

    async def fails(hooks: Hooked) -> None:
        assert verdict(await hooks.ask("/validate", update(pod))) == REFUSED
        assert verdict(await hooks.ask("/validate", update(pod, "app:v1"))) == "", "no change"

    asked(lab, tmp_path / "off", passes)
    asked(lab, tmp_path / "on", fails, BOTH)


@pytest.mark.parametrize(("lost", "text"), [(3, ""), (4, "Timeout: couldn't update")])
def test_pub_54_conflicts_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int, text: str
) -> None:
    lab = lab_of(3, maxUnavailable=1)
    pod = lab.pods()[0]

    async def script(hooks: Hooked) -> None:
        send, left = hooks.serving.handler.guard.transport.send, [lost]

        async def slow(request: ApiRequest) -> ApiReply:
            if request.subresource == "status" and left[0]:
                left[0] -= 1
                raise Conflict("another was faster")
            return await send(request)

        monkeypatch.setattr(hooks.transport, "send", slow)
        answer = verdict(await hooks.ask("/validate", deletion(pod)))
        assert answer.startswith(text)
        assert bool(answer) == bool(text)

    asked(lab, tmp_path, script)


def test_pub_23_a_new_pod_gets_the_name_of_its_budget(tmp_path: Path) -> None:
    lab = Lab()
    lab.apply(deployment(replicas=1))
    lab.run(30)
    lab.apply(budget(kind="Deployment", maxUnavailable=1))
    born = {k: v for k, v in lab.pods()[0].items() if k != "status"}

    async def script(hooks: Hooked) -> None:
        made = patched(born, await hooks.ask("/mutate", review(born, namespace=SPACE)))
        notes = made["metadata"]["annotations"]
        assert (notes[RELATED], notes[RELATED_LEGACY]) == ("keep", "keep")

    asked(lab, tmp_path, script)


def test_fields_of_a_budget_are_judged(tmp_path: Path) -> None:
    lab = Lab(nodes=0)

    async def script(hooks: Hooked) -> None:
        answer = await hooks.ask("/validate", review(budget(), namespace=SPACE))
        assert "no maxUnavailable or minAvailable" in answer["status"]["message"]

    asked(lab, tmp_path, script)


def test_a_pod_whose_budget_is_gone_is_free(tmp_path: Path) -> None:
    lab = lab_of(2, minAvailable=2)
    pod = lab.pods()[0]
    lab.delete(budget())

    async def script(hooks: Hooked) -> None:
        assert verdict(await hooks.ask("/validate", deletion(pod))) == ""

    asked(lab, tmp_path, script)

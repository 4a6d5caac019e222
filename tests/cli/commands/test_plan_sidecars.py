"""A plan of a SidecarSet: who matches, who takes it live, who cannot and why, what new pods get."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any, Final

import pytest

from tests.cli.calls import Caller
from tests.cli.shop import Checkout, cloneset, nowhere

Golden = Callable[[str, str], None]


def mesh(
    image: str = "v1",
    *,
    hot: bool = False,
    empty: str = "v1",
    args: str = "[]",
    injection: str = "{}",
    **update: Any,
) -> str:
    """The manifest of a SidecarSet for the pods of checkout."""
    kind = "HotUpgrade" if hot else "ColdUpgrade"
    fields = ", ".join(f"{name}: {value}" for name, value in update.items())
    return dedent(f"""\
        apiVersion: apps.kruise.io/v1alpha1
        kind: SidecarSet
        metadata:
          name: mesh
        spec:
          selector:
            matchLabels: {{app: checkout}}
          containers:
            - name: mesh
              image: mesh:{image}
              args: {args}
              upgradeStrategy:
                upgradeType: {kind}
                hotUpgradeEmptyImage: mesh-empty:{empty}
          injectionStrategy: {injection}
          updateStrategy: {{{fields}}}
        """)


# before → after, by what the change teaches
CHANGES: Final[dict[str, tuple[str | None, str]]] = {
    "in-place": (mesh("v1"), mesh("v2", maxUnavailable=5)),
    "canary": (mesh("v1"), mesh("v2", maxUnavailable=2, partition="60%")),
    "hot": (mesh("v1", hot=True), mesh("v2", hot=True, maxUnavailable=5)),
    "hot-empty": (mesh(hot=True), mesh(hot=True, empty="v2")),
    "more-than-images": (mesh("v1"), mesh("v2", args='["-v"]')),
    "paused": (mesh("v1"), mesh("v2", paused="true")),
    "inject-only": (mesh("v1"), mesh("v2", type="NotUpdate")),
    "not-selected": (mesh("v1"), mesh("v2", selector="{matchLabels: {pick: me}}")),
    "injection-paused": (mesh("v1"), mesh("v1", injection="{paused: true}")),
    "creation": (None, mesh("v1")),
    "stuck": (mesh("v1"), nowhere(mesh("v2"))),
}


QUICK: Final = ("canary", "hot", "more-than-images")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CHANGES]
)
def test_text(gk: Caller, checkout: Checkout, golden: Golden, name: str) -> None:
    before, after = CHANGES[name]
    given: dict[str, str | None] = {"c.yaml": cloneset()}
    given |= {"mesh.yaml": before} if before else {}
    checkout.commit("before", given)
    checkout.commit(name, {"mesh.yaml": after})
    ended = gk("plan", cwd=checkout.folder, COLUMNS="100")
    assert (ended.code, ended.err) == (0, "")
    assert max(map(len, ended.out.splitlines())) <= 100
    golden(f"cli-plan/sidecarset-{name}.txt", ended.out)


def test_json_names_who_cannot_and_what_new_pods_get(gk: Caller, checkout: Checkout) -> None:
    before, after = CHANGES["more-than-images"]
    checkout.commit("before", {"c.yaml": cloneset(replicas=3), "mesh.yaml": before})
    checkout.commit("after", {"mesh.yaml": after})
    (rollout,) = gk("plan", "-o", "json", cwd=checkout.folder).obj["rollouts"]
    assert (rollout["kind"], rollout["replicas"], rollout["hold"]) == (
        "SidecarSet", 3, "CannotUpdateInPlace",
    )  # fmt: skip
    assert rollout["steps"] == []
    sidecars = rollout["sidecars"]
    assert [entry["why"] for entry in sidecars["cannotFollow"]] == [
        "containers.mesh.args changed"
    ] * 3
    assert sidecars["newPods"]["containers"] == [{"name": "mesh", "image": "mesh:v2"}]
    assert sidecars["newPods"]["revision"].startswith("mesh-")

"""Units as objects of a real API server: what stock kubectl shows, and what RBAC lets them do."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from gitkruise.app import RunOptions, controller
from gitkruise.gitops.resources.declared import ResourceRules
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.config import Config
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.installed import command
from tests.kube.real.shop import HANG_S, Shop, pods_run
from tests.kube.real.test_install import token_of

pytestmark = [
    pytest.mark.kube,
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),
]
OBJECTS = """\
apiVersion: v1
kind: Namespace
metadata: {{name: shop}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: deployer, namespace: shop}}
---
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: fleet, namespace: shop}}
spec: {{url: {url}, ref: {{branch: main}}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: web, namespace: shop}}
spec: {{sourceRef: {{name: fleet}}, path: apps/search, serviceAccountName: deployer}}
"""
ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {name}, namespace: shop}}
rules: [{rule}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}, namespace: shop}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects: [{{kind: ServiceAccount, name: {subject}, namespace: {space}}}]
"""
ACTS = ROLE.format(
    name="acts", subject="gitkruise", space="gitkruise-system",
    rule="{apiGroups: [''], resources: [serviceaccounts], resourceNames: [deployer], "
    "verbs: [impersonate]}",
)  # fmt: skip
DEPLOYS = ROLE.format(
    name="deploys", subject="deployer", space="shop",
    rule="{apiGroups: ['', apps.kruise.io], resources: [services, clonesets], "
    "verbs: [create, patch, delete]}",
)  # fmt: skip


class Kubectl:
    """Stock kubectl as the administrator."""

    def __init__(self, program: str, config: Path) -> None:
        self._words = [program, f"--kubeconfig={config}", "-n", "shop"]

    async def __call__(self, *words: str, stdin: str = "") -> str:
        done = await asyncio.to_thread(
            subprocess.run, [*self._words, *words], input=stdin, capture_output=True, text=True,
            check=False, timeout=HANG_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def apply(self, text: str) -> None:
        await self("apply", "-f", "-", stdin=text)

    async def wait(self, condition: str) -> None:
        await self("wait", f"--for={condition}", "unit/web", f"--timeout={HANG_S:g}s")

    async def message(self) -> str:
        return await self("get", "unit", "web", "-o=jsonpath={.status.conditions[0].message}")


async def scenario(kubectl: Kubectl, shop: Shop) -> None:
    """The account is not ours to act for, then may do nothing, then all it needs."""
    commit = shop.push("The shop")
    await kubectl.apply(OBJECTS.format(url=shop.bare))
    await kubectl.wait("condition=Stalled")
    assert "cannot act as service account shop/deployer" in await kubectl.message()
    await kubectl.apply(ACTS)
    refusal = (
        'User "system:serviceaccount:shop:deployer" cannot patch resource "clonesets" in API '
        'group "apps.kruise.io" in the namespace "shop"'
    )
    await kubectl.wait("jsonpath={.status.phase}=Rejected")
    assert refusal in await kubectl.message()
    assert await kubectl("get", "clonesets", "-o", "name") == ""
    await kubectl.apply(DEPLOYS)
    await kubectl("annotate", "unit", "web", "gitkruise.io/reconcile-at=now")
    await kubectl.wait("condition=Ready")
    shown = await kubectl("get", "units,gitsources", "--no-headers")
    unit, source = (line.split() for line in shown.splitlines() if line)
    assert unit[:5] == ["unit.gitkruise.io/web", "True", "Done", commit[:7], "3/3"]
    assert unit[5].endswith(("s", "m"))
    assert source[0] == "gitsource.gitkruise.io/fleet"
    assert source[2:4] == ["True", commit[:7]]
    assert "web" in await kubectl("get", "gitkruise", "-o", "name")
    await kubectl("delete", "unit", "web", f"--timeout={HANG_S:g}s")
    left = await kubectl("get", "clonesets", "-o=jsonpath={.items[*].metadata.deletionTimestamp}")
    assert len(left.split()) == len((await kubectl("get", "clonesets", "-o=name")).split())


def test_kubectl_shows_units_and_rbac_bounds_them(
    fresh: Apiserver, kubectl: str, tmp_path: Path
) -> None:
    config = fresh.kubeconfig()
    installed = command("install", "--kubeconfig", str(config), root=tmp_path)
    assert installed.returncode == 0, installed.stderr

    async def play() -> None:
        async with talking(fresh) as admin, pods_run(admin):
            token = await token_of(admin)
            async with talking(fresh, token) as account:
                options = RunOptions(
                    config=Config(), cluster="real", state_dir=tmp_path / "state",
                    identity="test", custom=ResourceRules(local_sources=True),
                )  # fmt: skip
                async with controller(options, account, SystemClock()):
                    await scenario(Kubectl(kubectl, config), Shop(tmp_path))

    asyncio.run(play())

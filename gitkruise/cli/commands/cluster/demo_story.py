"""The story of the demo: the repository of a shop, and the commits that git pushes to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gitkruise.git.edit.set_field import edit_field
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.rollback import compute_rollback
from gitkruise.kube.system.package_data import data_dir
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey

BRANCH: Final = "main"
WHO: Final = ("gitkruise demo", "demo@localhost")
CHECKOUT: Final = ObjectKey("apps.kruise.io", "CloneSet", "shop", "checkout")
CART: Final = ObjectKey("apps.kruise.io", "CloneSet", "shop", "cart")
SEARCH: Final = ObjectKey("apps.kruise.io", "CloneSet", "shop", "search")
PROXY: Final = ObjectKey("apps.kruise.io", "SidecarSet", "", "mesh-proxy")
FILES: Final = {
    CHECKOUT: "apps/checkout/cloneset.yaml",
    CART: "apps/cart/cloneset.yaml",
    SEARCH: "apps/search/cloneset.yaml",
    PROXY: "mesh/proxy.yaml",
}
_IMAGE: Final = ("spec", "template", "spec", "containers", 0, "image")
_PARTITION: Final = ("spec", "updateStrategy", "partition")
_LABEL: Final = ("spec", "template", "metadata", "labels", "mesh")
_POLICY: Final = ("spec", "updateStrategy", "rollingUpdate", "podUpdatePolicy")
_METRICS: Final = ("spec", "containers", 0, "image")
_PROXY: Final = ("spec", "containers", 1, "image")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One commit: how the working tree changes, and the state its rollout ends in.

    `unit` is the unit that it changes; `pair` shows the two containers of a hot sidecar.
    """

    subject: str
    ends: State
    watch: ObjectKey | None = None  # the rollout it is about; None: everything
    unit: str = "shop/shop"
    pair: bool = False
    lesson: str = ""
    change: Callable[[Workbench], None] = field(default=lambda _: None)


class Workbench:
    """A bare repository and a clone of it, driven by the git command."""

    def __init__(self, root: Path) -> None:
        self.bare, self.clone = root / "shop-deploy.git", root / "clone"
        self._home = root

    def create(self) -> None:
        """Create the bare, empty repository and a clone with the manifests of the shop."""
        self._git(self._home, "init", "-q", "--bare", f"--initial-branch={BRANCH}", str(self.bare))
        self._git(self._home, "clone", "-q", str(self.bare), str(self.clone))
        shutil.copytree(data_dir("examples-repo"), self.clone, dirs_exist_ok=True)

    def set(self, key: ObjectKey, path: tuple[str | int, ...], value: object) -> None:
        """Edit one field of a manifest in the clone."""
        file = self.clone / FILES[key]
        file.write_bytes(edit_field(file.read_bytes(), FILES[key], key, path, value))

    def roll_back(self, key: ObjectKey) -> None:
        """Write the rollback that gitkruise computes: the template before the last commit, and
        the partition that lets every pod return."""
        with Repository.open(str(self.clone)) as repository:
            head = repository.resolve(BRANCH)
            before = repository.commit(head).parents[0]
            computed = compute_rollback(repository, key, now=head, to=before)
        (self.clone / computed.file).write_bytes(computed.data)

    def push(self, subject: str) -> str:
        """Commit and push everything; return the id of the commit."""
        name, email = WHO
        self._git(self.clone, "add", "-A")
        self._git(
            self.clone, "-c", f"user.name={name}", "-c", f"user.email={email}",
            "commit", "-q", "-m", subject,
        )  # fmt: skip
        self._git(self.clone, "push", "-q", "origin", f"HEAD:{BRANCH}")
        return self._git(self.clone, "rev-parse", "HEAD")

    def diary(self, branch: str) -> list[str]:
        """Return the subjects of the status branch, oldest first."""
        text = self._git(self.bare, "log", "--reverse", "--format=%s", branch)
        return [line.removesuffix(" [skip ci]") for line in text.splitlines()]

    def changed_lines(self) -> list[str]:
        """Return the changes of the last commit as `-` and `+` lines."""
        text = self._git(self.clone, "show", "--format=", "--unified=0")
        return [
            line
            for line in text.splitlines()
            if line[:1] in {"-", "+"} and line[:3] not in {"---", "+++"}
        ]

    def _git(self, where: Path, *words: str) -> str:
        environment = {
            "PATH": os.defpath,
            "HOME": str(self._home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }
        done = subprocess.run(  # noqa: S603  our own words, no shell
            [shutil.which("git") or "git", *words],
            cwd=where,
            env=environment,
            start_new_session=True,  # Ctrl-C in a terminal is for the demo, which ends git itself
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()


def _canary(workbench: Workbench) -> None:
    workbench.set(CHECKOUT, _IMAGE, "registry.example.com/checkout:v2.4.1")
    workbench.set(CHECKOUT, _PARTITION, "60%")


def _the_rest(workbench: Workbench) -> None:
    workbench.set(CHECKOUT, _PARTITION, 0)


def _bad_image(workbench: Workbench) -> None:
    workbench.set(CART, _IMAGE, "registry.example.com/cart:v9-broken")
    workbench.set(CART, _PARTITION, "50%")


def _rollback(workbench: Workbench) -> None:
    workbench.roll_back(CART)


def _join_mesh(workbench: Workbench) -> None:
    workbench.set(SEARCH, _LABEL, "enabled")
    workbench.set(SEARCH, _POLICY, "ReCreate")


def _metrics(workbench: Workbench) -> None:
    workbench.set(PROXY, _METRICS, "registry.example.com/metrics:v4")
    workbench.set(PROXY, _PARTITION, "50%")


def _proxy(workbench: Workbench) -> None:
    workbench.set(PROXY, _PROXY, "registry.example.com/proxy:v1.32")
    workbench.set(PROXY, _PARTITION, 0)


STORY: Final = (
    Chapter(subject="shop: first release", ends=State.DONE),
    Chapter(
        subject="checkout v2.4.1, partition 60%",
        ends=State.HELD,
        watch=CHECKOUT,
        lesson="a canary: 60% stay on the old version until the next commit",
        change=_canary,
    ),
    Chapter(
        subject="checkout: partition 0",
        ends=State.DONE,
        watch=CHECKOUT,
        lesson="the rest follows, two pods at a time",
        change=_the_rest,
    ),
    Chapter(
        subject="cart v9, partition 50%",
        ends=State.STUCK,
        watch=CART,
        lesson="an image that does not exist: the rollout stops, old pods keep serving",
        change=_bad_image,
    ),
    Chapter(
        subject="cart: roll back to v8",
        ends=State.DONE,
        watch=CART,
        lesson="computed by gitkruise: template and partition together",
        change=_rollback,
    ),
    Chapter(
        subject="search: join the mesh",
        ends=State.DONE,
        watch=SEARCH,
        lesson="sidecars are injected on pod creation, so the pods are recreated",
        change=_join_mesh,
    ),
    Chapter(
        subject="mesh metrics v4, partition 50%",
        ends=State.HELD,
        watch=PROXY,
        unit="shop/mesh",
        lesson="a sidecar is updated in the running pods, as far as its partition allows",
        change=_metrics,
    ),
    Chapter(
        subject="mesh proxy v1.32 for all",
        ends=State.DONE,
        watch=PROXY,
        unit="shop/mesh",
        pair=True,
        lesson="hot upgrade: the old proxy serves until the new one is ready",
        change=_proxy,
    ),
)

"""A small shop in git: its manifests, its commits and the record gitkruise wrote of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent

from gitkruise.errors import Finding, SourcePlace
from gitkruise.gitops.status.serializer import record_files, shared_files
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import ObjectRecord, Rollout, RolloutStep, UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey
from tests.git.repos import run_git

START = datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)
CHECKOUT = ObjectKey("apps.kruise.io", "CloneSet", "shop", "checkout")
WEB = ObjectKey("apps", "Deployment", "shop", "web")


def cloneset(
    image: str = "v1",
    *,
    partition: str | int = 0,
    replicas: int = 10,
    policy: str = "InPlaceIfPossible",
    level: str = "info",
    name: str = "checkout",
) -> str:
    """The manifest of a CloneSet."""
    return dedent(f"""\
        apiVersion: apps.kruise.io/v1alpha1
        kind: CloneSet
        metadata:
          name: {name}
          namespace: shop
        spec:
          replicas: {replicas}
          selector:
            matchLabels:
              app: {name}
          template:
            metadata:
              labels:
                app: {name}
            spec:
              containers:
                - name: app
                  image: registry.example.com/{name}:{image}
                  env:
                    - name: LOG_LEVEL
                      value: {level}
          updateStrategy:
            type: {policy}
            partition: {partition}
            maxUnavailable: 2
        """)


HERE = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: here, namespace: shop}
spec: {url: .}
"""  # the source of units of the same repository


CONFIG_MAP = dedent("""\
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: old-flags
      namespace: shop
    data:
      flag: "on"
    """)


def nowhere(manifest: str) -> str:
    """The manifest with images that no registry has: below the domain `invalid` (RFC 2606)."""
    return re.sub(r"image: (?:registry\.example\.com/)?", "image: registry.invalid/", manifest)


class Checkout:
    """A repository with a working tree and no remote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        run_git(folder, "init", "-q", "--initial-branch=main")

    def write(self, files: dict[str, str | None]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)

    def commit(self, subject: str, files: dict[str, str | None]) -> str:
        self.write(files)
        run_git(self.folder, "add", "--all")
        run_git(self.folder, "commit", "-q", "--allow-empty", "-m", subject)
        return run_git(self.folder, "rev-parse", "HEAD")

    def record(self, cluster: str, *records: UnitRecord, **more: bytes) -> None:
        """A commit of the status branch with these records; the working tree stays as it is."""
        files = shared_files(records)
        for record in records:
            files |= record_files(record)
        files |= more
        index = {}
        for path, data in files.items():
            index[path] = run_git(self.folder, "hash-object", "-w", "--stdin", data=data)
        tree, branch = self._tree(index), f"refs/heads/gitkruise/status/{cluster}"
        tip = run_git(self.folder, "for-each-ref", "--format=%(objectname)", branch)
        after = ["-p", tip] if tip else []
        commit = run_git(self.folder, "commit-tree", tree, *after, "-m", "status")
        run_git(self.folder, "update-ref", branch, commit)

    def _tree(self, blobs: dict[str, str]) -> str:
        """Nested trees of blob ids by path."""
        folders: dict[str, dict[str, str]] = {}
        rows = []
        for path, blob in blobs.items():
            head, slash, rest = path.partition("/")
            if slash:
                folders.setdefault(head, {})[rest] = blob
            else:
                rows.append(f"100644 blob {blob}\t{path}")
        rows += [f"040000 tree {self._tree(inner)}\t{name}" for name, inner in folders.items()]
        return run_git(self.folder, "mktree", data=("\n".join(rows) + "\n").encode())


def commit(number: int, subject: str) -> GitCommit:
    return GitCommit(
        id=f"{number:x}" * 40,
        subject=subject,
        author="Dana K",
        time=START + timedelta(minutes=number),
    )


def rollout(state: State = State.HELD, **changes: object) -> Rollout:
    values: dict[str, object] = {
        "key": CHECKOUT, "state": state, "message": "4 of 10 on bbb, held by partition 60%",
        "replicas": 10, "partition": "60%", "kept": 6, "asked": 4, "updated": 4, "updated_ready": 4,
        "ready": 10, "total": 10, "available": 10, "budget": 2, "in_place": True,
        "update_revision": "checkout-bbb", "current_revision": "checkout-aaa",
    }  # fmt: skip
    return Rollout(**(values | changes))  # type: ignore[arg-type]  # a row of a table


def unit_record(*, state: State = State.HELD, findings: tuple[Finding, ...] = ()) -> UnitRecord:
    """A canary held at 60%, after a first release."""
    first, canary, bad = commit(1, "first release"), commit(2, "canary"), commit(3, "oops")
    steps = (
        RolloutStep(
            commit=first, change="created, 10 pods", revision="checkout-aaa", partition="0",
            asked=10, replicas=10, started=START, state=State.DONE, updated=10,
            done=START + timedelta(seconds=31),
        ),
        RolloutStep(
            commit=canary, change="app v1 → v2, partition 0 → 60%", revision="checkout-bbb",
            partition="60%", asked=4, replicas=10, started=START + timedelta(hours=1),
            state=State.HELD, updated=4, done=START + timedelta(hours=1, seconds=12),
        ),
    )  # fmt: skip
    return UnitRecord(
        unit="shop/shop", cluster="sandbox", source="main", state=state, message="held",
        since=START, attempted=bad if findings else canary, applied=canary, causal=canary,
        objects=(
            ObjectRecord(key=CHECKOUT, state=State.HELD, commit=canary.id, message="4 of 10"),
            ObjectRecord(key=WEB, state=State.DRIFTED, commit=first.id, message="replicas 2 → 5"),
        ),
        rollouts=(rollout(),), steps=((CHECKOUT, steps),), findings=findings,
    )  # fmt: skip


REJECTED = Finding(
    code="GK1203",
    message='unknown field "partiton" in CloneSet spec.updateStrategy',
    places=(SourcePlace(file="apps/checkout.yaml", line=24, column=3),),
)

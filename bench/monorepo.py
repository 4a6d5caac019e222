"""A repository with very many units, each in a folder of its own, and gitkruise's words for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.e2e.cluster import Cluster
from tests.git.repos import run_git

SPACE: Final = "fleet"
_APPLIED: Final = "fieldManager=bench&force=true"
_FILE_UNITS: Final = 200  # documents of one file of the configuration


@dataclass(frozen=True, slots=True)
class Monorepo:
    """`bare` is what gitkruise follows, `config` its configuration."""

    bare: Path
    config: Path

    def commit(self, files: Mapping[str, str], message: str) -> str:
        """A commit on main with these files set, made without a work tree; its id."""
        parent = run_git(self.bare, "for-each-ref", "--format=%(objectname)", "refs/heads/main")
        lines = ["commit refs/heads/main", "committer a <a@b> 1790000000 +0000"]
        lines += [f"data {len(message)}", message]
        lines += [f"from {parent}"] if parent else []
        for path, text in files.items():
            lines += [f"M 100644 inline {path}", f"data {len(text.encode())}", text]
        run_git(self.bare, "fast-import", "--quiet", data=("\n".join(lines) + "\n").encode())
        return run_git(self.bare, "rev-parse", "refs/heads/main")


def create(folder: Path, names: Iterable[str]) -> Monorepo:
    """An empty repository, and units `names` that follow `units/NAME` of it."""
    bare, config = folder / "units.git", folder / "config"
    run_git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    config.mkdir()
    ref = {"sourceRef": {"name": "units"}}
    (config / "source.yaml").write_text(
        _documents(
            _document("GitSource", "units", {"url": str(bare), "ref": {"branch": "main"}}),
            _document("Sink", "outcome", {"git": {**ref, "coalesce": "5s"}}),
        )
    )
    units = [
        _document(
            "Unit",
            name,
            {
                **ref,
                "path": f"units/{name}",
                "sinkRef": {"name": "outcome"},
                "target": {"namespace": SPACE},
            },
        )
        for name in names
    ]
    for start in range(0, len(units), _FILE_UNITS):
        path = config / f"units-{start:05}.yaml"
        path.write_text(_documents(*units[start : start + _FILE_UNITS]))
    return Monorepo(bare, config)


def add_source(repo: Monorepo, name: str, url: str) -> None:
    """Another source, and a unit of the same name that follows it."""
    spec = {"sourceRef": {"name": name}, "path": ".", "target": {"namespace": SPACE}}
    documents = _documents(
        _document("GitSource", name, {"url": url, "ref": {"branch": "main"}}),
        _document("Unit", name, spec),
    )
    (repo.config / f"{name}.yaml").write_text(documents)


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "gitkruise.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": SPACE},
        "spec": spec,
    }


def _documents(*documents: Mapping[str, Any]) -> str:
    return "---\n".join(json.dumps(document) + "\n" for document in documents)


def make_space(cluster: Cluster) -> None:
    """The namespace of all units."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    cluster.send("PATCH", f"/api/v1/namespaces/{SPACE}?{_APPLIED}", json.dumps(space).encode())


def four_objects(name: str) -> str:
    """Manifests of a small service; its Deployment asks for no pods."""
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels: {{app: {name}}}
spec:
  replicas: 0
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      serviceAccountName: {name}
      containers:
      - name: app
        image: registry.example.com/{name}:v1
        ports:
        - containerPort: 8080
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {name}
---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector: {{app: {name}}}
  ports:
  - port: 80
    targetPort: 8080
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {name}
spec:
  rules:
  - host: {name}.example.com
    http:
      paths:
      - path: /
        pathType: Prefix
        backend:
          service:
            name: {name}
            port: {{number: 80}}
"""


def status_tip(repo: Monorepo) -> str:
    """The tip of the status branch."""
    return run_git(repo.bare, "for-each-ref", "--format=%(objectname)", "refs/heads/gitkruise")

"""Custom resources in one unit, their definition in another, and changes to both in one commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.kube.client.discovery import served_by
from gitkruise.model.gitops.config import (
    Config,
    GitSource,
    GitSourceSpec,
    Reference,
    Unit,
    UnitSpec,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from tests.git.repos import make_origin
from tests.gitops.preview.test_preview import CATALOG
from tests.gitops.reconcile.test_definition_changes import database, typed

LIVE: Final = typed(size="integer")


def with_units(*names: str) -> Config:
    units = {
        f"shop/{name}": Unit("shop", name, UnitSpec(source_ref=Reference(name="src"), path=name))
        for name in names
    }
    return Config({"shop/src": GitSource("shop", "src", GitSourceSpec(url="."))}, units, {})


@pytest.mark.parametrize("known", [(), (LIVE,)], ids=["offline", "with the kinds of a cluster"])
def test_the_definition_that_the_commit_brings_counts_for_every_unit(
    tmp_path: Path, known: tuple[Obj, ...]
) -> None:
    crd = typed(size="integer", color="string")
    objects = {"crs/a.yaml": database(size=1, color="red"), "crds/a.yaml": crd}
    origin = make_origin(tmp_path)
    commit = origin.commit({name: json.dumps(obj) for name, obj in objects.items()})
    catalog = served_by(CATALOG, known) if known else CATALOG
    with Repository.open(str(origin.bare)) as repository:
        side = read_side(repository, commit, with_units("crs", "crds"), catalog, Gates())
    assert side.findings == ()
    assert [str(d.key) for d in side.objects] == [
        "Database shop/main",
        "CustomResourceDefinition databases.example.com",
    ]

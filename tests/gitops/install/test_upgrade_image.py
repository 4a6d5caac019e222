"""The image of the next version, by the name of the installed one."""

from __future__ import annotations

import pytest

from gitkruise import __version__
from gitkruise.errors import UsageProblem
from gitkruise.gitops.install.upgrade_plan import next_image
from gitkruise.wire.primitives.names import Obj
from tests.gitops.install.hall import SPACE

REGISTRY = "registry.example.com:5000/gk"


def controller(image: str) -> Obj:
    meta = {"name": "gitkruise", "namespace": SPACE}
    pod = {"spec": {"containers": [{"name": "gitkruise", "image": image}]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta,
            "spec": {"template": pod}}  # fmt: skip


@pytest.mark.parametrize(
    ("image", "installed", "chosen", "expected"),
    [
        ("gitkruise:0.0.9", "0.0.9", "", ""),
        ("gitkruise:latest", "0.0.9", "", ""),
        ("gitkruise:0.0.9", "0.0.9", "me:2", "me:2"),
        (f"{REGISTRY}:0.0.9", "0.0.9", "", f"{REGISTRY}:{__version__}"),
        ("registry.example.com/gk:0.0.9", "0.0.9", "", f"registry.example.com/gk:{__version__}"),
        (f"{REGISTRY}@sha256:0", "0.0.9", "me:2", "me:2"),
    ],
)
def test_it_keeps_its_repository(image: str, installed: str, chosen: str, expected: str) -> None:
    assert next_image(controller(image), installed, chosen) == expected


@pytest.mark.parametrize(
    ("image", "installed"),
    [
        (REGISTRY, ""),
        (f"{REGISTRY}:latest", "0.0.9"),
        (f"{REGISTRY}:0.0.9@sha256:0", "0.0.9"),
        (f"{REGISTRY}:v0.0.9", "0.0.9"),
    ],
)
def test_an_ambiguous_name_is_refused(image: str, installed: str) -> None:
    with pytest.raises(UsageProblem, match="GK7074") as refused:
        next_image(controller(image), installed, "")
    (finding,) = refused.value.findings
    assert dict(finding.notes)["next"] == "gitkruise upgrade --image IMAGE"

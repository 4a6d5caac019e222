"""gitkruise upgrade: what it asks and what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise import __version__
from tests.cli.calls import Caller


@pytest.mark.slow
def test_it_shows_asks_applies_and_then_has_nothing_to_do(gk: Caller, own_cluster: Path) -> None:
    cluster = ("--kubeconfig", str(own_cluster))
    assert gk("install", "--image", "gitkruise:0.0.9", *cluster).code == 0

    dry = gk("upgrade", "--dry-run", *cluster)
    assert dry.code == 0, dry.err
    lines = dry.out.splitlines()
    at = lines.index("to change   Deployment gitkruise-system/gitkruise")
    image = "spec.template.spec.containers.0.image"
    assert lines[at + 1].strip() == f"{image}: gitkruise:0.0.9 → gitkruise:{__version__}"
    assert "left alone  ConfigMap gitkruise-system/gitkruise-config: it is yours to edit" in lines
    assert not [line for line in lines if line.startswith("unchanged")]
    assert f"dry run, nothing was written: gitkruise {__version__}: " in dry.err
    unasked = gk("upgrade", *cluster)
    assert (unasked.code, "GK7071" in unasked.err) == (2, True)

    done = gk("upgrade", "--yes", "-o", "json", *cluster)
    assert done.code == 0, done.err
    assert "objects of units and their pods are unchanged" in done.err
    assert (done.obj["kind"], done.obj["to"], done.obj["migrations"]) == (
        "Upgrade", __version__, []
    )  # fmt: skip
    (changed,) = (item for item in done.obj["items"] if item["change"] == "configured")
    assert (changed["object"]["name"], changed["fields"]) == ("gitkruise", [image])
    again = gk("upgrade", *cluster)
    assert (again.code, f"gitkruise {__version__}: nothing to change" in again.err) == (0, True)

    other = gk("upgrade", "-n", "elsewhere", *cluster)
    assert (other.code, "GK7057" in other.err) == (2, True)
    assert "gitkruise upgrade --namespace gitkruise-system" in other.err

"""A gitkruise.yaml that also has units of artifacts and of other repositories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.unit_state import State
from tests.cli.calls import Caller
from tests.cli.commands.test_why import ask
from tests.cli.live import applied
from tests.cli.shop import Checkout, cloneset, unit_record

pytestmark = pytest.mark.slow

UNIT = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: {name}, namespace: shop}}
spec: {{url: "{url}"}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: {name}, namespace: shop}}
spec: {{sourceRef: {{name: {name}}}, path: {path}}}
---
"""
HERE = UNIT.format(name="here", url=".", path="apps")
OTHERS = UNIT.format(name="artifact", url="oci://registry.example/app", path="none") + UNIT.format(
    name="other", url="https://git.example/other.git", path="apps"
)


@pytest.fixture
def central(checkout: Checkout) -> Checkout:
    checkout.commit("one", {"gitkruise.yaml": HERE + OTHERS, "apps/c.yaml": cloneset(name="two")})
    return checkout


def test_a_plan_has_the_units_of_its_repository(gk: Caller, central: Checkout) -> None:
    central.commit("two", {"apps/c.yaml": cloneset("v2", name="two")})
    ended = gk("plan", cwd=central.folder)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("CloneSet shop/two") == 1
    assert "unit shop/other" not in ended.out


def test_a_configuration_of_other_addresses_alone_is_taken_as_that_of_the_checkout(
    gk: Caller, checkout: Checkout
) -> None:
    """A fork, or a mirror that a pipeline cloned."""
    alone = UNIT.format(name="other", url="https://git.example/other.git", path="apps")
    checkout.commit("one", {"gitkruise.yaml": alone, "apps/c.yaml": cloneset(name="two")})
    assert "CloneSet shop/two" in gk("plan", cwd=checkout.folder).out


def test_drift_names_the_units_that_it_cannot_compare(
    gk: Caller, central: Checkout, cluster: Path
) -> None:
    with applied(cluster, cloneset(name="two", replicas=3)):
        ended = ask(gk, cluster, "drift", "-o", "json", "--repo", str(central.folder))
    assert [item["live"] for item in ended.obj["items"]] == ["3"]
    assert [finding["code"] for finding in ended.obj["findings"]] == ["GK7049", "GK7049"]


def test_no_commit_is_waited_for_where_it_never_comes(gk: Caller, central: Checkout) -> None:
    head = GitCommit(id=central.commit("two", {"README.md": "x"}), subject="x")
    gone = GitCommit(id="0" * 40, subject="sha256:0")
    whole = replace(unit_record(state=State.DONE), path="apps", objects=())
    records = [
        replace(whole, unit=f"shop/{name}", applied=commit, attempted=commit)
        for name, commit in (("here", head), ("artifact", gone), ("other", gone))
    ]
    central.record("sandbox", *records)
    ended = gk("wait", "--timeout", "1ms", cwd=central.folder)
    assert ended.code == 0, ended.err
    assert "shop/artifact" not in ended.out
    ended = gk("wait", "shop/artifact", "--timeout", "1ms", cwd=central.folder)
    assert ended.code != 0
    assert "error[GK7049]: unit shop/artifact follows oci://registry.example/app" in ended.err

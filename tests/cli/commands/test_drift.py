"""Live objects that differ from git, or that have already what an edit asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calls import Caller
from tests.cli.commands.test_why import ask
from tests.cli.live import applied
from tests.cli.shop import Checkout, cloneset

TWO_UNITS = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: here, namespace: shop}
spec: {url: .}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: good, namespace: shop}
spec: {sourceRef: {name: here}, path: good}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: broken, namespace: shop}
spec: {sourceRef: {name: here}, path: broken}
"""


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [10, 3])
def test_a_unit_that_cannot_be_read_hides_no_drift_of_others(
    gk: Caller, checkout: Checkout, cluster: Path, replicas: int
) -> None:
    files = {"gitkruise.yaml": TWO_UNITS, "good/c.yaml": cloneset(name="two"),
             "broken/c.yaml": "kind: ["}  # fmt: skip
    checkout.commit("one", dict(files))
    with applied(cluster, cloneset(name="two", replicas=replicas)):
        words = ("--repo", str(checkout.folder))
        ended = ask(gk, cluster, "drift", "-o", "json", *words)
        text = ask(gk, cluster, "drift", *words)
        nothing = ask(gk, cluster, "drift", "cloneset/other", *words)
    assert (ended.code, text.code, nothing.code) == (3, 3, 3)
    live = [item["live"] for item in ended.obj["items"]]
    assert live == ([] if replicas == 10 else ["3"])
    (finding,) = ended.obj["findings"]
    assert f"error[{finding['code']}]" in text.err
    assert "broken/c.yaml" in text.err
    assert ("nothing differs from git in 1 object of other units" in text.out) == (not live)


@pytest.mark.slow
def test_an_edit_may_ask_for_what_is_live(gk: Caller, checkout: Checkout, cluster: Path) -> None:
    """Somebody lowered the partition in the cluster, or the controller was faster."""
    checkout.commit("a canary", {"apps/c.yaml": cloneset("v2", partition=6, name="ahead")})
    with applied(cluster, cloneset("v2", partition=3, name="ahead")):
        ended = ask(gk, cluster, "promote", "cloneset/ahead", "-n", "shop", "--partition", "3",
                    "--print", "--repo", str(checkout.folder))  # fmt: skip
    assert (ended.code, ended.err) == (0, "")
    assert "+    partition: 3" in ended.out

"""Commands on one unit while the repository of another unit's chart is away."""

from __future__ import annotations

from typing import Final

from tests.cli.calls import Caller
from tests.cli.shop import Checkout, cloneset
from tests.gitops.programs import SOURCE, unit

AWAY: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: charted, namespace: shop}
spec:
  sourceRef: {name: src}
  render:
    kind: helm
    helm: {repository: "http://127.0.0.1:9/charts", chart: redis, version: 1.0.0}
"""


def rolled_out(checkout: Checkout) -> None:
    config = (SOURCE + unit("one")).format(url=".") + AWAY
    checkout.commit("first", {"gitkruise.yaml": config, "one/c.yaml": cloneset(name="one")})
    checkout.commit("second", {"one/c.yaml": cloneset("v2", name="one")})


def test_a_plan_is_of_the_units_that_can_be_read(gk: Caller, checkout: Checkout) -> None:
    rolled_out(checkout)
    ended = gk("plan", "-o", "json", cwd=checkout.folder)
    assert (ended.code, [change["name"] for change in ended.obj["changes"]]) == (0, ["one"])
    found = {f["code"]: f for f in ended.obj["findings"]}
    assert {code: f["severity"] for code, f in found.items()} == {
        "GK2108": "warning", "GK3413": "warning",
    }  # fmt: skip
    assert found["GK3413"]["message"].startswith("unit shop/charted: chart redis cannot be read")


def test_a_rollback_of_another_unit_goes_on(gk: Caller, checkout: Checkout) -> None:
    rolled_out(checkout)
    ended = gk("rollback", "cloneset/one", "-n", "shop", "--dry-run", cwd=checkout.folder)
    assert ended.code == 0
    assert "v2 → v1" in ended.out

"""What OpenKruise or a server would only trip over later is refused, or warned of, when written."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import InvalidObject
from gitkruise.model.workloads.labels import DELETION_COST
from gitkruise.wire.primitives.names import Obj
from tests.worlds import Lab, cloneset, container, create, pod, sidecarset

LAUNCH = "apps.kruise.io/container-launch-priority"


def noted(obj: dict[str, Any], **notes: str) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "annotations": notes}}


@pytest.mark.parametrize("cost", ["abc", "2147483648", "-2147483649", "+5", "05", "", "1.5", " 1"])
def test_a_deletion_cost_is_a_number_of_32_bits(cost: str) -> None:
    lab = Lab()
    lab.apply(noted(pod("good"), **{DELETION_COST: "7"}))
    with pytest.raises(InvalidObject, match="must be a 32bit integer"):
        lab.apply(noted(pod("bad"), **{DELETION_COST: cost}))
    with pytest.raises(InvalidObject, match="must be a 32bit integer"):
        lab.patch(pod("good"), {"metadata": {"annotations": {DELETION_COST: cost}}})
    owner = cloneset()
    owner["spec"]["template"]["metadata"]["annotations"] = {DELETION_COST: cost}
    with pytest.raises(InvalidObject, match="must be a 32bit integer"):
        lab.apply(owner)


@pytest.mark.parametrize("cost", ["0", "-7", "2147483647", "-2147483648"])
def test_a_good_deletion_cost(cost: str) -> None:
    assert Lab().apply(noted(pod(), **{DELETION_COST: cost}))


def test_a_hot_upgrade_needs_its_empty_image() -> None:
    hot = container("mesh", "mesh:v1", upgradeStrategy={"upgradeType": "HotUpgrade"})
    with pytest.raises(InvalidObject, match="hotUpgradeEmptyImage: Required value"):
        Lab().apply(sidecarset("mesh", hot))
    hot["upgradeStrategy"]["hotUpgradeEmptyImage"] = "empty:v1"
    assert Lab().apply(sidecarset("mesh", hot))


@pytest.mark.parametrize(("word", "warned"), [("ordered", True), ("ORDERED", True),
                                              ("Ordered", False), ("other", False)])  # fmt: skip
def test_an_order_of_launch_in_the_wrong_case(word: str, warned: bool) -> None:
    lab = Lab()
    owner = cloneset()
    owner["spec"]["template"]["metadata"]["annotations"] = {LAUNCH: word}
    owner["metadata"]["namespace"] = "shop"
    reply = lab.world.handle(create(lab.world, owner), lab.now)
    assert any('write "Ordered"' in text for text in reply.warnings) == warned

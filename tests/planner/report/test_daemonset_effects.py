"""A plan says which pods of a DaemonSet a change moves, and where only the cluster knows it."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.gitops.preview.changes import changes_between
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.change import ObjectChange
from gitkruise.planner.report.blast_radius import footprint, footprint_words, unforeseen
from gitkruise.wire.primitives.names import Obj
from tests.planner.sync.build import desired

KUBERNETES = "apps/v1"
OPENKRUISE = "apps.kruise.io/v1beta1"
EVERY_NODE = "its pods are REPLACED on every node"


def daemons(
    image: str = "nginx:1.0",
    *,
    api: str = KUBERNETES,
    strategy: str = "RollingUpdate",
    rolling: Obj | None = None,
    **spec: Any,
) -> Obj:
    pods = {"containers": [{"name": "c", "image": image}], **spec}
    return {
        "apiVersion": api,
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": {
                "type": strategy, **({} if rolling is None else {"rollingUpdate": rolling}),
            },
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": pods},
        },
    }  # fmt: skip


def change(before: Obj, after: Obj) -> ObjectChange:
    (found,) = changes_between([desired(before)], [desired(after)], load_catalog())
    return found


def effect(before: Obj, after: Obj) -> str:
    """What a plan says of a change: why its effect is unknown, or the effect; "" without any."""
    found = change(before, after)
    words = "".join(span.text for span in footprint_words(footprint(found), found))
    return unforeseen(found) or words


@pytest.mark.parametrize("api", [KUBERNETES, OPENKRUISE])
def test_a_new_image_replaces_the_pods_on_every_node(api: str) -> None:
    assert effect(daemons(api=api), daemons("nginx:1.1", api=api)) == EVERY_NODE


@pytest.mark.parametrize("api", [KUBERNETES, OPENKRUISE])
def test_a_new_image_moves_no_pod_on_delete(api: str) -> None:
    before = daemons(api=api, strategy="OnDelete")
    assert effect(before, daemons("nginx:1.1", api=api, strategy="OnDelete")) == ""


@pytest.mark.parametrize(
    "placement",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"nodeName": "node-1"},
        {"affinity": {"nodeAffinity": {}}},
    ],
    ids=lambda placement: next(iter(placement)),
)
def test_other_nodes_lose_and_get_pods_whatever_the_strategy_is(placement: Obj) -> None:
    rolling = effect(daemons(), daemons(**placement))
    assert rolling == EVERY_NODE + " that it selects, and deleted on the others"
    waiting = effect(daemons(strategy="OnDelete"), daemons(strategy="OnDelete", **placement))
    assert waiting == "its pods follow the nodes that it selects, also with OnDelete"


def test_pods_that_waited_to_be_deleted_are_replaced_by_another_strategy() -> None:
    after = daemons()
    text = "pods of an older template, if there are any, are replaced"
    assert effect(daemons(strategy="OnDelete"), after) == text
    waiting = {**daemons(strategy="OnDelete"), "status": status(updated=2)}
    assert effect(waiting, after) == text
    complete = {**daemons(strategy="OnDelete"), "status": status(updated=3)}
    assert effect(complete, after) == ""


def status(*, updated: int) -> Obj:
    return {"desiredNumberScheduled": 3, "updatedNumberScheduled": updated}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"partition": 2}, {"partition": 0}),
        ({"paused": True}, {"paused": False}),
        ({"selector": {"matchLabels": {"a": "b"}}}, {}),
    ],
    ids=["partition", "paused", "selector"],
)
def test_the_controller_decides_where_fields_of_openkruise_hold_pods(
    before: Obj, after: Obj
) -> None:
    here = daemons(api=OPENKRUISE, rolling=before)
    decides = "the controller of DaemonSet decides"
    assert effect(here, daemons(api=OPENKRUISE, rolling=after)) == decides
    assert effect(here, daemons("nginx:1.1", api=OPENKRUISE, rolling=before)) == decides


def test_the_controller_decides_which_pods_are_updated_in_place() -> None:
    rolling = {"rollingUpdateType": "InPlaceIfPossible"}
    before = daemons(api=OPENKRUISE, rolling=rolling)
    after = daemons("nginx:1.1", api=OPENKRUISE, rolling=rolling)
    assert effect(before, after) == "the controller of DaemonSet decides"


def test_the_pace_of_an_update_moves_no_pod() -> None:
    pace = {"maxUnavailable": 2}
    assert effect(daemons(), daemons(rolling=pace)) == ""
    slow = daemons(api=OPENKRUISE, rolling={"partition": 2, "maxUnavailable": 1})
    assert effect(slow, daemons(api=OPENKRUISE, rolling={"partition": 2, **pace})) == ""

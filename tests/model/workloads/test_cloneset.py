"""CloneSet facts: both API versions mean the same."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.model.workloads.cloneset import CloneSetFacts, Policy, cloneset_facts

ALPHA, BETA = "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"


def facts(api_version: str, spec: dict[str, Any], **metadata: Any) -> CloneSetFacts:
    base = {"selector": {"matchLabels": {"app": "web"}}, "template": {}}
    meta = {"name": "web", "namespace": "shop", "uid": "u", "generation": 3, **metadata}
    return cloneset_facts(
        {"apiVersion": api_version, "kind": "CloneSet", "metadata": meta, "spec": {**base, **spec}}
    )


FIELDS: Final = {
    "partition": "60%",
    "maxUnavailable": 2,
    "maxSurge": "10%",
    "paused": True,
    "priorityStrategy": {"orderPriority": [{"orderedKey": "ord"}]},
    "scatterStrategy": [{"key": "zone", "value": "a"}],
    "inPlaceUpdateStrategy": {"gracePeriodSeconds": 5},
}


def test_update_strategy_moved_below_rolling_update() -> None:
    alpha = facts(ALPHA, {"updateStrategy": {"type": "InPlaceIfPossible", **FIELDS}})
    rolling = {"podUpdatePolicy": "InPlaceIfPossible", **FIELDS}
    beta = facts(BETA, {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})
    assert alpha.update == beta.update
    assert alpha.update.policy is Policy.IN_PLACE_IF_POSSIBLE
    assert (alpha.update.partition.written, alpha.update.grace_s) == ("60%", 5)


@pytest.mark.parametrize(
    ("api_version", "scale", "metadata", "reuse", "exclude"),
    [
        (ALPHA, {}, {}, True, False),
        (ALPHA, {"disablePVCReuse": True}, {}, False, False),
        (BETA, {}, {}, False, False),
        (BETA, {"enablePVCReuse": True}, {}, True, False),
        (BETA, {"excludePreparingDelete": True}, {}, False, True),
        (
            ALPHA,
            {},
            {"labels": {"apps.kruise.io/cloneset-scaling-exclude-preparing-delete": "true"}},
            True,
            True,
        ),
    ],
)
def test_scale_strategy(
    api_version: str, scale: dict[str, Any], metadata: dict[str, Any], reuse: bool, exclude: bool
) -> None:
    made = facts(api_version, {"scaleStrategy": scale}, **metadata).scale
    assert (made.reuse_claims, made.exclude_preparing_delete) == (reuse, exclude)


def test_on_delete_has_no_rolling_update() -> None:
    for version in (ALPHA, BETA):
        update = facts(version, {"updateStrategy": {"type": "OnDelete"}}).update
        assert update.on_delete
        assert not update.rolling


def test_predownload_annotations_became_fields() -> None:
    notes = {
        "apps.kruise.io/image-predownload-parallelism": "3",
        "apps.kruise.io/image-predownload-timeout-seconds": "60",
        "apps.kruise.io/image-predownload-min-updated-ready-pods": "soon",
    }
    update = facts(ALPHA, {}, annotations=notes).update
    assert update.predownload_parallelism == 3
    assert update.predownload_timeout_s == 60
    assert update.predownload_min_ready == "soon"  # counts as 0 where it is needed


def test_what_admission_fills_in_is_not_needed() -> None:
    made = facts(BETA, {})
    assert (made.replicas, made.history_limit, made.min_ready_s) == (1, 10, 0)
    assert made.progress_deadline_s is None
    assert made.update.policy is Policy.RECREATE


@pytest.mark.parametrize("selector", [{"matchLabels": {"app": "web"}}, None,
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}])  # fmt: skip
def test_selects_as_its_selector_does(selector: Any) -> None:
    made = facts(BETA, {"selector": selector})
    for labels in ({"app": "web", "x": "y"}, {"app": "api"}, {}):
        assert made.selects(labels) is made.selector.matches(labels)

"""CloneSets as they are sent to a cluster without OpenKruise's webhooks."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.admission.conversion.registry import convert
from gitkruise.gitops.build.kruise_defaulting import ClusterDialect
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.kruise.revision_data import default_template
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get, put

_found = load_catalog().by_kind("apps.kruise.io", "v1beta1", "CloneSet")
assert _found is not None
ALPHA: Final = ClusterDialect(kind=_found, version="v1alpha1", defaulted=True)
TEMPLATE: Final[dict[str, Any]] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "app", "image": "web:1"}]},
}
WRITTEN: Final[dict[str, Any]] = {
    "apiVersion": "apps.kruise.io/v1alpha1",
    "kind": "CloneSet",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}


def sent(live: Obj | None, body: Obj = WRITTEN, gates: Gates = Gates()) -> Obj:
    return ALPHA.outgoing(body, live, gates)


def stored(template: Any, replicas: int = 1) -> Obj:
    """A live object, in the version git speaks."""
    full = convert(put(sent(None), ("spec", "template"), template), "v1alpha1")
    changed: Obj = put(full, ("spec", "replicas"), replicas)
    return changed


def test_a_new_object_is_sent_as_the_webhooks_would_store_it() -> None:
    obj = sent(None)
    assert obj["apiVersion"] == "apps.kruise.io/v1beta1"
    assert get(obj, "spec", "template") == default_template(TEMPLATE)
    assert get(obj, "spec", "replicas") == 1
    assert get(obj, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable") == "20%"


@pytest.mark.parametrize(
    ("live", "defaulted"),
    [
        pytest.param(default_template(TEMPLATE), True, id="stored-with-defaults"),
        pytest.param(TEMPLATE, False, id="stored-without-and-unchanged"),
        pytest.param(
            put(TEMPLATE, ("spec", "containers", 0, "image"), "web:0"), True, id="changed"
        ),
    ],
)
def test_a_template_gets_defaults_when_it_is_new_or_changed(live: Any, defaulted: bool) -> None:
    """Otherwise its hash would change, and every pod with it."""
    policy = get(sent(stored(live)), "spec", "template", "spec", "dnsPolicy")
    assert policy == ("ClusterFirst" if defaulted else None)


def test_gate_template_no_defaults_leaves_the_template_as_git_has_it() -> None:
    obj = sent(None, gates=Gates(template_no_defaults=True))
    assert get(obj, "spec", "template", "spec", "dnsPolicy") is None
    assert get(obj, "spec", "replicas") == 1


@pytest.mark.parametrize(
    ("written", "live", "expected"),
    [
        pytest.param(None, 7, None, id="scaled-by-others"),
        pytest.param(None, 1, 1, id="as-the-default"),
        pytest.param(5, 7, 5, id="git-names-a-number"),
    ],
)
def test_replicas_that_git_does_not_name_belong_to_whoever_scales(
    written: int | None, live: int, expected: int | None
) -> None:
    body = WRITTEN if written is None else put(WRITTEN, ("spec", "replicas"), written)
    obj = sent(stored(default_template(TEMPLATE), replicas=live), body)
    assert get(obj, "spec", "replicas") == expected


ROLLING: Final = ("spec", "updateStrategy", "rollingUpdate")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param({}, None, id="set-by-others"),
        pytest.param({"partition": 0}, 0, id="git-names-it"),
    ],
)
def test_what_others_set_and_git_does_not_name_gets_no_default(
    written: dict[str, Any], expected: int | None
) -> None:
    """The default would be a conflict with the person who patched the field."""
    live = convert(stored(default_template(TEMPLATE)), "v1beta1")
    live = put(put(live, (*ROLLING, "partition"), 3), ("spec", "revisionHistoryLimit"), 5)
    obj = sent(live, put(WRITTEN, ("spec", "updateStrategy"), written))
    assert get(obj, *ROLLING, "partition") == expected
    assert get(obj, *ROLLING, "maxUnavailable") == "20%"
    assert get(obj, "spec", "revisionHistoryLimit") is None


def test_a_reply_comes_back_in_the_version_git_speaks() -> None:
    back = ALPHA.incoming(sent(None))
    assert back["apiVersion"] == "apps.kruise.io/v1alpha1"
    assert get(back, "spec", "updateStrategy", "type") == "ReCreate"


def test_without_the_sign_of_a_missing_webhook_nothing_is_added() -> None:
    beta = {**convert(WRITTEN, "v1beta1"), "metadata": WRITTEN["metadata"]}
    plain = ClusterDialect(kind=ALPHA.kind, version="v1beta1")
    assert plain.outgoing(beta, None, Gates()) == beta


def test_an_advanced_stateful_set_gets_its_defaults_too() -> None:
    kind = load_catalog().by_kind("apps.kruise.io", "v1beta1", "StatefulSet")
    assert kind is not None
    dialect = ClusterDialect(kind=kind, version="v1alpha1", defaulted=True)
    obj = dialect.outgoing({**WRITTEN, "kind": "StatefulSet"}, None, Gates())
    assert obj["apiVersion"] == "apps.kruise.io/v1beta1"
    assert get(obj, "spec", "podManagementPolicy") == "OrderedReady"
    assert get(obj, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable") == 1

"""SidecarSets refused because of others: conflicts, canaries, whitelist (SIDE-109 to SIDE-115)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.admission.rules.selector_overlap import overlap
from gitkruise.model.workloads.sidecarset_revision import SET_LABEL, sidecarset_revision_data
from gitkruise.wire.primitives.gojson import RawJSON
from gitkruise.wire.values.selectors import label_selector
from tests.admission.kruise.test_sidecarset import HOT, NATIVE, refused, side, sidecarset
from tests.admission.writes import NO_GATES, admitted

CONTAINERS, VOLUMES, METADATA = "spec.containers", "spec.volumes", "spec.patchPodMetadata"
HOST: Final = {"name": "v", "hostPath": {"path": "/a", "type": ""}}
MOUNT: Final = [{"name": "v", "mountPath": "/v"}]


def labels(**pairs: str) -> dict[str, Any]:
    return {"matchLabels": pairs}


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    one: dict[str, Any] = {"key": key, "operator": operator}
    return {"matchExpressions": [{**one, "values": list(values)} if values else one]}


def patch(policy: str, key: str = "k") -> list[dict[str, Any]]:
    return [{"annotations": {key: '{"a":1}'}, "patchPolicy": policy}]


def other(**spec: Any) -> dict[str, Any]:
    """A stored SidecarSet."""
    return {**sidecarset("other", **spec), "metadata": {"name": "other"}}


INIT: Final = [side("i")]
ROWS: Final[dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]]] = {
    "SIDE-109": (
        {"initContainers": INIT, "volumes": [HOST]},
        {"initContainers": INIT, "volumes": [HOST]},
        [CONTAINERS] * 2,
    ),
    "SIDE-110": (
        {"namespaceSelector": labels(app="nginx")},
        {"namespaceSelector": labels(app="nginx")},
        [CONTAINERS],
    ),
    "SIDE-110: apart": (
        {"namespaceSelector": labels(app="nginx")},
        {"namespaceSelector": labels(app="redis")},
        [],
    ),
    "SIDE-110: one has none": ({"namespaceSelector": labels(app="nginx")}, {}, [CONTAINERS]),
    "SIDE-111: names": (
        {"containers": [side("a")], "volumes": [HOST]},
        {"volumes": [{**HOST, "name": "w"}]},
        [],
    ),
    "SIDE-111: equal": ({"containers": [side("a")], "volumes": [HOST]}, {"volumes": [HOST]}, []),
    "SIDE-111: different": (
        {"containers": [side("a")], "volumes": [HOST]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/b", "type": ""}}]},
        [VOLUMES],
    ),
    "SIDE-112": (
        {"containers": [side("a")], "patchPodMetadata": patch("Overwrite")},
        {"patchPodMetadata": patch("MergePatchJson")},
        [METADATA],
    ),
    "SIDE-112: both merge": (
        {"containers": [side("a")], "patchPodMetadata": patch("MergePatchJson")},
        {"patchPodMetadata": patch("MergePatchJson")},
        [],
    ),
    "SIDE-112: different keys": (
        {"containers": [side("a")], "patchPodMetadata": patch("Retain")},
        {"patchPodMetadata": patch("Overwrite", "l")},
        [],
    ),
    "SIDE-112: one retains": (
        {"containers": [side("a")], "patchPodMetadata": patch("Retain")},
        {"patchPodMetadata": patch("Overwrite")},
        [],
    ),
    "not the same pods": ({"selector": labels(app="x")}, {"selector": labels(app="y")}, []),
}


@pytest.mark.parametrize(("ours", "theirs", "fields"), ROWS.values(), ids=ROWS)
def test_conflicts(ours: dict[str, Any], theirs: dict[str, Any], fields: list[str]) -> None:
    assert refused(sidecarset(**ours), around=(other(**theirs),)) == fields


def test_a_broken_set_is_not_compared_with_others() -> None:
    assert refused(sidecarset(selector={}), around=(other(),)) == ["spec.selector"]


ROW_113: Final = {
    "a=h / a=h": (labels(a="h"), labels(a="h"), True),
    "a=h / a=i": (labels(a="h"), labels(a="i"), False),
    "a=h / b=i": (labels(a="h"), labels(b="i"), True),
    "three keys": (labels(a="h", b="i", c="j"), labels(a="h", b="x", c="j"), False),
    "a=h / a In(h,i,j)": (labels(a="h"), term("a", "In", "h", "i", "j"), True),
    "a=h / a In(i,j)": (labels(a="h"), term("a", "In", "i", "j"), False),
    "a NotIn(h,i) / a=h": (term("a", "NotIn", "h", "i"), labels(a="h"), False),
    "a=h / a Exists": (labels(a="h"), term("a", "Exists"), True),
    "a DoesNotExist / a=h": (term("a", "DoesNotExist"), labels(a="h"), False),
}


@pytest.mark.parametrize(("one", "two", "meet"), ROW_113.values(), ids=ROW_113)
def test_overlaps(one: dict[str, Any], two: dict[str, Any], *, meet: bool) -> None:
    both = label_selector(one), label_selector(two)
    assert overlap(*both) is overlap(*both[::-1]) is meet


def test_quirk_a_key_that_must_exist_does_not_keep_sets_apart() -> None:
    """OpenKruise takes `{x Exists}` and a selector without x for disjoint; pods break (#732)."""
    clash = other(selector=term("x", "Exists"))
    assert refused(sidecarset(), around=(clash,)) == [CONTAINERS]
    clash = other(selector=term("app", "NotIn", "db"))
    assert refused(sidecarset(), around=(clash,)) == [CONTAINERS]


VALUES: Final = ("", "h", "i")
TERMS: Final = st.lists(
    st.sampled_from([
        term(key, operator, *values)["matchExpressions"][0]
        for key in "ab"
        for operator, values in (
            ("In", ("h",)), ("In", ("h", "i")), ("NotIn", ("h",)), ("NotIn", ("h", "i")),
            ("Exists", ()), ("DoesNotExist", ()),
        )
    ]),
    max_size=3,
)  # fmt: skip


@given(TERMS, TERMS)
def test_overlap_is_exact(one: list[Any], two: list[Any]) -> None:
    """Two selectors overlap exactly when some labels satisfy both."""
    both = [label_selector({"matchExpressions": terms}) for terms in (one, two)]
    choices = (None, "h", "i", "elsewhere")
    found = any(
        all(selector.matches({k: v for k, v in pairs if v is not None}) for selector in both)
        for a in choices
        for b in choices
        for pairs in [(("a", a), ("b", b))]
    )
    assert overlap(*both) is found


CANARY: Final = {"apps.kruise.io/sidecarset-canary": "true"}


def canary(name: str, base: str, kind: str = "NotUpdate") -> dict[str, Any]:
    notes = {**CANARY, "apps.kruise.io/sidecarset-base": base}
    return sidecarset(name, notes=notes, updateStrategy={"type": kind})


BASE: Final = sidecarset("base", selector=labels(app="web"))
ROW_114: Final = {
    "SIDE-114: its own base": (canary("c", "c"), None, ()),
    "SIDE-114: the base is a canary": (canary("c", "base"), None, (canary("base", "x"),)),
    "SIDE-114: no base": (canary("c", "base"), None, ()),
    "SIDE-114: base changed": (canary("c", "base"), canary("c", "old"), (BASE,)),
    "SIDE-114: RollingUpdate": (canary("c", "base", "RollingUpdate"), None, (BASE,)),
}


@pytest.mark.parametrize(("obj", "old", "around"), ROW_114.values(), ids=ROW_114)
def test_canaries_that_are_refused(obj: Any, old: Any, around: Any) -> None:
    stored = None if old is None else sidecarset("old")
    before = (stored,) if stored else ()
    if old is None:
        assert refused(obj, around=around) == ["metadata"]
        return
    made = admitted(old, around=before)
    with pytest.raises(Exception, match="the base of a canary cannot change"):
        admitted(obj, made, around=around)


def test_side_114_a_canary_and_its_base_go_together() -> None:
    assert refused(canary("c", "base"), around=(BASE,)) == []
    made = admitted(canary("c", "base"), around=(BASE,))
    assert admitted(made, made, around=(BASE,)) == made


def test_quirk_a_base_can_be_changed_while_it_has_a_canary() -> None:
    """OpenKruise ignores the base when a canary is written, but not the canary of a base."""
    assert refused(sidecarset("base"), around=(canary("c", "base"),)) == []
    two = (BASE, canary("first", "base"))
    assert refused(canary("second", "base"), around=two) == [CONTAINERS]


def whitelist(*rules: dict[str, Any], text: str = "") -> dict[str, Any]:
    data = text or json.dumps({"rules": list(rules)})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kruise-configuration", "namespace": "kruise-system"},
        "data": {"SidecarSet_PatchPodMetadata_WhiteList": data},
    }


def rule(*patterns: str, selector: Any = None) -> dict[str, Any]:
    out: dict[str, Any] = {"allowedAnnotationKeyExprs": list(patterns)}
    return {**out, "selector": selector} if selector else out


ROW_115: Final = {
    "SIDE-115: no ConfigMap": ((), False),
    "SIDE-115: key.*": ((whitelist(rule("key.*")),), True),
    "SIDE-115: key2": ((whitelist(rule("key2")),), False),
    "SIDE-115: a selector that does not match": (
        (whitelist(rule("key.*", selector=labels(a="no"))),),
        False,
    ),
    "SIDE-115: a selector that matches": (
        (whitelist(rule("key.*", selector=labels(team="x"))),),
        True,
    ),
    "several rules": ((whitelist(rule("no"), rule("ey1$")),), True),
    "no rules": ((whitelist(),), False),
    "no JSON": ((whitelist(text="{"),), False),
    "another shape": ((whitelist(text="[1]"),), False),
    "a pattern that is a number": ((whitelist({"allowedAnnotationKeyExprs": [1]}),), False),
    "a pattern RE2 refuses": ((whitelist(rule("(?=key)")),), False),
}  # fmt: skip


@pytest.mark.parametrize(("around", "allowed"), ROW_115.values(), ids=ROW_115)
def test_the_whitelist(around: Any, *, allowed: bool) -> None:
    obj = sidecarset(patchPodMetadata=patch("Retain", "key1"))
    obj["metadata"]["labels"] = {"team": "x"}
    if allowed:
        assert admitted(obj, around=around, gates=NO_GATES)
        return
    with pytest.raises(Exception, match=r"spec\.patchPodMetadata: Forbidden"):
        admitted(obj, around=around, gates=NO_GATES)


def test_side_115_without_patches_nobody_is_asked() -> None:
    assert admitted(sidecarset(), gates=NO_GATES)


def test_the_gate_allows_what_no_whitelist_names_but_not_against_one() -> None:
    obj = sidecarset(patchPodMetadata=patch("Retain", "key1"))
    assert refused(obj) == []
    assert refused(obj, around=(whitelist(rule("key2")),)) == [METADATA]


def revision(name: str, owner: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "kruise-system", "labels": {SET_LABEL: owner}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": meta,
        "data": RawJSON(sidecarset_revision_data(sidecarset())),
        "revision": 1,
    }


def test_quirk_a_pinned_revision_must_be_the_sets_own() -> None:
    """OpenKruise takes any ControllerRevision of its namespace, and injects what it finds there."""
    obj = sidecarset(injectionStrategy={"revision": {"revisionName": "ss-1"}})
    assert refused(obj, around=(revision("ss-1", "ss"),)) == []
    assert refused(obj, around=(revision("ss-1", "other"),)) == ["revision"]


def test_quirk_a_hot_sidecars_name_leaves_room_for_its_pair() -> None:
    """OpenKruise admits 63 characters, and every pod is then refused for its `-1` and `-2`."""
    fits, long = side("n" * 61, upgradeStrategy=HOT), side("n" * 62, upgradeStrategy=HOT)
    assert refused(sidecarset(containers=[fits])) == []
    assert refused(sidecarset(containers=[long])) == ["spec.containers[0].name"]
    assert refused(sidecarset(containers=[side("n" * 63)])) == []


def test_quirk_names_that_meet_only_in_the_pod_are_a_conflict() -> None:
    """A hot pair's `mesh-1` and another set's `mesh-1`: OpenKruise admits both, no pod is made."""
    clash = other(containers=[side("mesh-1")])
    assert refused(sidecarset(containers=[side("mesh", upgradeStrategy=HOT)]), around=(clash,)) == [
        CONTAINERS
    ]
    clash = other(initContainers=[{**NATIVE, "name": "side"}], containers=[])
    assert refused(sidecarset(), around=(clash,)) == [CONTAINERS]


@pytest.mark.parametrize("expression", ["cpu*cpu", "10/cpu", "2cpu"])
def test_quirk_a_formula_that_would_deny_every_pod_is_refused(expression: str) -> None:
    """OpenKruise tries it with a plain 1 alone, and takes a malformed number for 0."""
    formula = {
        "targetContainersMode": "sum",
        "targetContainersNameRegex": ".*",
        "resourcesExpr": {"requests": {"cpu": expression}},
    }
    found = refused(sidecarset(containers=[side(resourcesPolicy=formula)]))
    assert found == ["spec[0].resourcesPolicy.resourcesExpr.requests.cpu"]


def test_quirk_a_source_without_a_field_is_refused() -> None:
    """It crashes OpenKruise's defaulting, and the request fails with 500."""
    term_ = {"sourceContainerNameFrom": {}, "envName": "E"}
    found = refused(sidecarset(containers=[side(transferEnv=[term_])]))
    assert found == ["spec[0].transferEnv.fieldRef"]


def test_quirk_denials_say_what_is_invalid() -> None:
    """OpenKruise denies SidecarSets with 500, which clients take for a fault and try again."""
    with pytest.raises(Exception, match="spec: Required value") as refusal:
        admitted(sidecarset(containers=[]))
    assert getattr(refusal.value, "status", 0) == 422

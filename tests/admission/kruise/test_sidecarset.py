"""SidecarSets at admission: refusals (SIDE-93 to SIDE-108, SIDE-116) and defaults (SIDE-117)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.admission.chain import OFFLINE, admit
from gitkruise.admission.kruise.sidecarset import sidecarset_problems
from gitkruise.errors import ApiError, InvalidObject
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE
from tests.admission.writes import NO_GATES, admitted, write

WEB: Final = {"matchLabels": {"app": "web"}}
BAD_LABEL: Final = {"matchLabels": {"app": "app-risk-"}}
LAVISH: Final = Gates(sidecar_set_patch_pod_metadata_defaults_allowed=True)
HOT: Final = {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}
NATIVE: Final = {"name": "net", "image": "net:1", "restartPolicy": "Always"}
ROLLING: Final = {"type": "RollingUpdate"}


def side(name: str = "side", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": f"{name}:1", **more}


def sidecarset(
    name: str = "ss", version: str = "v1beta1", notes: Any = None, **spec: Any
) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name}
    if notes:
        meta["annotations"] = notes
    return {
        "apiVersion": f"apps.kruise.io/{version}",
        "kind": "SidecarSet",
        "metadata": meta,
        "spec": {"selector": WEB, "containers": [side()], **spec},
    }


def refused(obj: dict[str, Any], old: Any = None, *, around: Any = ()) -> list[str]:
    """The fields of the refusal, as often as each is named."""
    before = None if old is None else admitted(old, gates=LAVISH)
    try:
        admitted(obj, before, gates=LAVISH, around=around)
    except ApiError as error:
        return [cause.field for cause in error.details.causes]
    return []


def undefaulted(**spec: Any) -> list[str]:
    """Problems of a spec whose defaults were not set."""
    core = {
        "imagePullPolicy": "Always",
        "terminationMessagePolicy": "File",
        "podInjectPolicy": "BeforeAppContainer",
    }
    containers = [{**side(), **core, "shareVolumePolicy": {"type": "disabled"}}]
    obj = sidecarset(**{"containers": containers, **spec})
    return [problem.field for problem in sidecarset_problems(write(obj), NO_GATES)]


SCATTER: Final = [{"key": "a", "value": "b"}] * 2
TWICE: Final = [{"annotations": {"k": v}, "patchPolicy": "Retain"} for v in "ab"]
DEVICE: Final = [{"name": "d", "devicePath": "/dev/d"}]
CLAIM: Final = [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]

ROWS: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "SIDE-93": ({"selector": None}, ["spec.selector"]),
    "an empty selector": ({"selector": {}}, ["spec.selector"]),
    "SIDE-94": (
        {"updateStrategy": {**ROLLING, "scatterStrategy": SCATTER}},
        ["spec.updateStrategy.scatterStrategy"],
    ),
    "SIDE-95": ({"selector": BAD_LABEL}, ["spec.selector.matchLabels", "spec.selector.selector"]),
    "SIDE-95: namespaces": (
        {"namespaceSelector": BAD_LABEL},
        ["spec.namespaceSelector.matchLabels", "spec.namespaceSelector.selector"],
    ),
    "SIDE-96": ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, []),
    "SIDE-97": ({"initContainers": [{"name": "i"}]}, ["spec.initContainers[0].image"]),
    "SIDE-98": ({"containers": []}, ["spec"]),
    "SIDE-101: no such volume": (
        {"containers": [side(volumeDevices=DEVICE)]},
        ["spec.containers[0].volumeDevices[0].name"],
    ),
    "SIDE-101: a claim": ({"containers": [side(volumeDevices=DEVICE)], "volumes": CLAIM}, []),
    "SIDE-102": ({"patchPodMetadata": TWICE}, ["spec.patchPodMetadata"]),
    "SIDE-103": (
        {"injectionStrategy": {"revision": {"customVersion": "no"}}},
        ["revision"],
    ),
    "SIDE-103: by name": (
        {"injectionStrategy": {"revision": {"revisionName": "no"}}},
        ["revision"],
    ),
    "SIDE-104": ({"initContainers": [NATIVE], "updateStrategy": ROLLING}, ["spec.updateStrategy"]),
    "SIDE-104: NotUpdate": (
        {"initContainers": [NATIVE], "updateStrategy": {"type": "NotUpdate"}},
        [],
    ),
    "SIDE-116: v2": (
        {"containers": [side(transferEnv=[{"sourceContainerNameFrom": {"fieldRef": {
            "apiVersion": "v2", "fieldPath": "metadata.labels['k']"}}}])]},
        ["spec[0].transferEnv.fieldRef.apiVersion"],
    ),
    "partition with selector": (
        {"updateStrategy": {**ROLLING, "partition": "10%", "selector": WEB}},
        ["updateStrategy"],
    ),
    "partition is not looked at without a rolling update": (
        {"updateStrategy": {"type": "NotUpdate", "partition": "some"}},
        [],
    ),
    "maxUnavailable": (
        {"updateStrategy": {**ROLLING, "maxUnavailable": "1.5%"}},
        ["spec.updateStrategy.maxUnavailable"],
    ),
    "amounts without a bound": (
        {"updateStrategy": {**ROLLING, "maxUnavailable": 0, "partition": "300%"}},
        [],
    ),
    "both priorities": (
        {"updateStrategy": {**ROLLING, "priorityStrategy": {
            "orderPriority": [{"orderedKey": "k"}],
            "weightPriority": [{"weight": 1, "matchSelector": WEB}]}}},
        ["spec.updateStrategy.priorityStrategy"],
    ),
    "a weight": (
        {"updateStrategy": {**ROLLING, "priorityStrategy": {
            "weightPriority": [{"weight": 101, "matchSelector": {}}]}}},
        ["spec.updateStrategy.priorityStrategy"] * 2,
    ),
    "no annotation": ({"patchPodMetadata": [{}]}, ["spec.patchPodMetadata"]),
    "an annotation key": (
        {"patchPodMetadata": [{"annotations": {"a b": "c"}}]},
        ["patchPodMetadata.annotations"],
    ),
    "a startup probe gets no defaults": (
        {"containers": [side(startupProbe={"tcpSocket": {"port": 80}})]},
        ["spec.containers[0].startupProbe.successThreshold"],
    ),
    "a startup probe that says it all": (
        {"containers": [side(startupProbe={"tcpSocket": {"port": 80}, "successThreshold": 1})]},
        [],
    ),
    "a lasting container among the ordinary ones": (
        {"containers": [side(restartPolicy="Always")]},
        ["spec.containers[0].restartPolicy"],
    ),
    "one name in both lists": (
        {"initContainers": [side("side")]},
        ["spec.initContainers[0].name"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "fields"), ROWS.values(), ids=ROWS)
def test_refusals(spec: dict[str, Any], fields: list[str]) -> None:
    assert refused(sidecarset(**spec)) == fields


def test_side_101_a_device_and_a_mount_on_one_path() -> None:
    mount = [{"name": "e", "mountPath": "/dev/d"}]
    one = side(volumeDevices=DEVICE, volumeMounts=mount)
    volumes = [*CLAIM, {"name": "e", "emptyDir": {}}]
    assert refused(sidecarset(containers=[one], volumes=volumes)) == [
        "spec.containers[0].volumeMounts[0].mountPath",
        "spec.containers[0].volumeDevices[0].devicePath",
    ]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param(
            {"containers": [side(imagePullPolicy="Always", terminationMessagePolicy="File",
                                 podInjectPolicy="AfterAppContainer")]},
            ["spec.container.shareVolumePolicy"],
            id="SIDE-99",
        ),
        pytest.param({"volumes": [{"name": "v"}]}, ["spec.volumes[0]"], id="SIDE-100"),
        pytest.param(
            {"patchPodMetadata": [{"annotations": {"k": "v"}}]},
            ["spec.patchPodMetadata"],
            id="no patchPolicy",
        ),
    ],
)  # fmt: skip
def test_rules_where_defaults_are_missing(spec: dict[str, Any], fields: list[str]) -> None:
    assert undefaulted(**spec) == fields


def policy(regex: str = ".*", **sides: Any) -> dict[str, Any]:
    return {
        "targetContainersMode": "sum",
        "targetContainersNameRegex": regex,
        "resourcesExpr": sides or {"limits": {"cpu": "cpu*50%"}},
    }


AT: Final = "spec[0].resourcesPolicy"
LIMITS: Final = {"limits": {"cpu": "1"}}
SCALED: Final = "0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)"
ROW_105: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "SIDE-105: resources": ({"resourcesPolicy": policy("["), "resources": LIMITS}, [AT]),
    "SIDE-105: pattern": (
        {"resourcesPolicy": policy("[invalid(regex")},
        [f"{AT}.targetContainersNameRegex"],
    ),
    "SIDE-105: nothing": (
        {"resourcesPolicy": {**policy(), "resourcesExpr": {}}},
        [f"{AT}.resourcesExpr"],
    ),
    **{
        f"SIDE-105: {text}": (
            {"resourcesPolicy": policy(limits={"cpu": text})},
            [f"{AT}.resourcesExpr.limits.cpu"],
        )
        for text in (
            "invalid expression @#$", "max(cpu*50%, 50m", "max(cpu*50%)", "invalidvar * 50%",
            "cpu +*/ 50%", "cpu-4",
        )
    },
    "SIDE-107": ({"resourcesPolicy": policy(requests={"cpu": SCALED})}, []),
}  # fmt: skip


@pytest.mark.parametrize(("more", "fields"), ROW_105.values(), ids=ROW_105)
def test_resources_policies(more: dict[str, Any], fields: list[str]) -> None:
    assert refused(sidecarset(containers=[side(**more)])) == fields


def test_side_105_a_pattern_that_is_empty() -> None:
    """It gets the CRD's default on its way, so only the bare rule sees it."""
    core = {"imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
    kruise: dict[str, Any] = {
        "podInjectPolicy": "AfterAppContainer",
        "shareVolumePolicy": {"type": "disabled"},
    }
    one = side(resourcesPolicy=policy(""), **core, **kruise)
    assert undefaulted(containers=[one]) == [f"{AT}.targetContainersNameRegex"]
    made = admitted(sidecarset(containers=[side(resourcesPolicy=policy(""))]))
    assert made["spec"]["containers"][0]["resourcesPolicy"]["targetContainersNameRegex"] == ".*"


def test_a_pull_secret_without_name_keeps_an_empty_one() -> None:
    made = admitted(sidecarset(imagePullSecrets=[{}]))
    assert made["spec"]["imagePullSecrets"] == [{"name": ""}]


def test_side_106_an_init_container_that_ends_has_no_formula() -> None:
    init = side("i", resourcesPolicy=policy("["))
    assert refused(sidecarset(initContainers=[init])) == [AT]


ROW_116: Final = {
    "invalid-label": False, "metadata.name": False, "metadata.annotations": False,
    "metadata.labels": False, "metadata.annotations['k']": True, "metadata.labels['k']": True,
    "metadata.labels['K k']": False, "metadata.annotations['K']": True, "": False,
}  # fmt: skip


@pytest.mark.parametrize(("path", "good"), ROW_116.items())
def test_fields_a_container_name_is_taken_from(path: str, *, good: bool) -> None:
    term = {"sourceContainerNameFrom": {"fieldRef": {"fieldPath": path}}, "envName": "E"}
    fields = [] if good else ["spec[0].transferEnv.fieldRef.fieldPath"]
    assert refused(sidecarset(containers=[side(transferEnv=[term])])) == fields


def test_side_117_a_bare_set_is_filled_in() -> None:
    made = admitted(
        sidecarset(
            containers=[{"name": "dns-f", "image": "dns:1.0"}],
            patchPodMetadata=[{"annotations": {"k": "v"}}],
        ),
        gates=LAVISH,
    )
    assert made["spec"] == {
        "selector": WEB,
        "containers": [
            {
                "name": "dns-f",
                "image": "dns:1.0",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
                "podInjectPolicy": "BeforeAppContainer",
                "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
                "shareVolumePolicy": {"type": "disabled"},
            }
        ],
        "updateStrategy": {"type": "RollingUpdate", "partition": 0, "maxUnavailable": 1},
        "injectionStrategy": {},
        "revisionHistoryLimit": 10,
        "patchPodMetadata": [{"annotations": {"k": "v"}, "patchPolicy": "Retain"}],
    }
    assert made["metadata"]["annotations"] == {
        HASH: "6wbd76bd7984x24fb4f44fv9222cw9v9bcf85x766744wddd4zwx927zzz2zb684",
        HASH_WITHOUT_IMAGE: "82684vwf9d4cb4wz4vffx4ddfbb47ww4z4wwxdbwb8w2zbb7zvf4524cdd49bv94",
    }


def test_a_second_pass_changes_nothing_and_a_forged_hash_is_overwritten() -> None:
    made = admitted(sidecarset(notes={HASH: "forged"}))
    assert made["metadata"]["annotations"][HASH] != "forged"
    assert admitted(made, made) == made


def test_volumes_are_filled_in() -> None:
    ref = {"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}
    listed = [
        {"name": "e"},
        {"name": "h", "hostPath": {"path": "/"}},
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "p", "projected": {"sources": [
            {"downwardAPI": {"items": [ref]}}, {"serviceAccountToken": {"path": "t"}}]}},
    ]  # fmt: skip
    empty, host, secret, projected = admitted(sidecarset(volumes=listed))["spec"]["volumes"]
    assert empty["emptyDir"] == {}
    assert host["hostPath"]["type"] == ""
    assert secret["secret"]["defaultMode"] == projected["projected"]["defaultMode"] == 420
    files, token = projected["projected"]["sources"]
    assert files["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"] == "v1"
    assert token["serviceAccountToken"]["expirationSeconds"] == 3600


UPDATES: Final[dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]]] = {
    "SIDE-108": (
        {"containers": [side()]},
        {"containers": [side(upgradeStrategy=HOT)]},
        ["spec.containers.upgradeStrategy.upgradeType"],
    ),
    "a container comes": (
        {"containers": [side()]},
        {"containers": [side(), side("two")]},
        ["spec.containers.name"],
    ),
    "a container goes": ({"containers": [side(), side("two")]}, {"containers": [side("two")]}, []),
    "init containers come and go": (
        {"initContainers": [side("a")]},
        {"initContainers": [side("b")]},
        [],
    ),
}


@pytest.mark.parametrize(("before", "after", "fields"), UPDATES.values(), ids=UPDATES)
def test_changes(before: dict[str, Any], after: dict[str, Any], fields: list[str]) -> None:
    assert refused(sidecarset(**after), sidecarset(**before)) == fields


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_both_versions_hash_alike(version: str) -> None:
    made = admitted(sidecarset(version=version, containers=[side(upgradeStrategy=HOT)]))
    beta = admitted(sidecarset(containers=[side(upgradeStrategy=HOT)]))
    assert made["metadata"]["annotations"] == beta["metadata"]["annotations"]


def test_a_manifest_alone_is_not_judged_by_its_neighbours() -> None:
    """No cluster, no history, no whitelist: what they decide is left open."""
    pin = {"revision": {"customVersion": "v1"}}
    obj = sidecarset(patchPodMetadata=TWICE[:1], injectionStrategy=pin)
    assert admit(write(obj), NO_GATES, OFFLINE) is not None
    with pytest.raises(InvalidObject):
        admit(write(obj), NO_GATES)

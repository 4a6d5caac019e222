"""Pods and pod templates are refused by Kubernetes' rules, at the fields it names."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.admission.pods.template import KRUISE, SERVER, template_problems
from gitkruise.wire.kruise.template_defaults import default_template
from gitkruise.wire.primitives.paths import put
from tests.admission.writes import admitted, fields, refusal

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "shop"},
    "spec": {
        "containers": [{"name": "a", "image": "nginx:1"}],
        "volumes": [
            {"name": "v"},
            {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
        ],
    },
}
C = ("spec", "containers", 0)
AT = "spec.containers[0]."
PROBE = {"tcpSocket": {"port": 80}}
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
ANTI = ("spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
NODE = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")

# (path, value put there, fields refused)
ROWS: list[tuple[tuple[str | int, ...], Any, set[str]]] = [
    ((*C, "name"), "", {AT + "name"}),
    ((*C, "name"), "a" * 64, {AT + "name"}),
    ((*C, "image"), " nginx", {AT + "image"}),
    ((*C, "image"), "", {AT + "image"}),
    ((*C, "imagePullPolicy"), "Often", {AT + "imagePullPolicy"}),
    ((*C, "terminationMessagePolicy"), "Log", {AT + "terminationMessagePolicy"}),
    ((*C, "restartPolicy"), "Always", {AT + "restartPolicy"}),
    ((*C, "ports"), [{"containerPort": 0}], {AT + "ports[0].containerPort"}),
    ((*C, "ports"), [{"containerPort": 65536}], {AT + "ports[0].containerPort"}),
    ((*C, "ports"), [{"containerPort": 1, "hostPort": -1}], {AT + "ports[0].hostPort"}),
    ((*C, "ports"), [{"containerPort": 1, "protocol": "HTTP"}], {AT + "ports[0].protocol"}),
    ((*C, "ports"), [{"containerPort": 1, "name": "Web"}], {AT + "ports[0].name"}),
    ((*C, "ports"), [{"containerPort": 1, "name": "0"}], {AT + "ports[0].name"}),
    ((*C, "ports"), [{"containerPort": 1, "hostIP": "x"}], {AT + "ports[0].hostIP"}),
    (
        (*C, "ports"),
        [{"containerPort": 1, "name": "w"}, {"containerPort": 2, "name": "w"}],
        {AT + "ports[1].name"},
    ),
    (
        (*C, "ports"),
        [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}],
        {AT + "ports[1].hostPort"},
    ),
    ((*C, "env"), [{"name": ""}], {AT + "env[0].name"}),
    ((*C, "env"), [{"name": "a=b"}], {AT + "env[0].name"}),
    ((*C, "env"), [{"name": "a b"}], set()),
    ((*C, "env"), [{"name": "A", "valueFrom": {}}], {AT + "env[0].valueFrom"}),
    (
        (*C, "env"),
        [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        {AT + "env[0].valueFrom"},
    ),
    (
        (*C, "env"),
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nothing"}}}],
        {AT + "env[0].valueFrom.fieldRef.fieldPath"},
    ),
    (
        (*C, "env"),
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}}],
        {AT + "env[0].valueFrom.fieldRef.fieldPath"},
    ),
    (
        (*C, "env"),
        [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}],
        {AT + "env[0].valueFrom.resourceFieldRef.resource"},
    ),
    (
        (*C, "env"),
        [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
        {AT + "env[0].valueFrom.secretKeyRef.key"},
    ),
    ((*C, "envFrom"), [{"prefix": "P"}], {AT + "envFrom[0]"}),
    ((*C, "envFrom"), [{"configMapRef": {}}], {AT + "envFrom[0].configMapRef.name"}),
    ((*C, "volumeMounts"), [{"name": "x", "mountPath": "/x"}], {AT + "volumeMounts[0].name"}),
    ((*C, "volumeMounts"), [{"name": "v"}], {AT + "volumeMounts[0].mountPath"}),
    (
        (*C, "volumeMounts"),
        [{"name": "v", "mountPath": "/x"}, {"name": "c", "mountPath": "/x"}],
        {AT + "volumeMounts[1].mountPath"},
    ),
    (
        (*C, "volumeMounts"),
        [{"name": "v", "mountPath": "/x", "subPath": "../y"}],
        {AT + "volumeMounts[0].subPath"},
    ),
    ((*C, "volumeDevices"), [{"name": "c", "devicePath": "/d"}], set()),
    ((*C, "volumeDevices"), [{"name": "v", "devicePath": "/d"}], {AT + "volumeDevices[0].name"}),
    ((*C, "livenessProbe"), {}, {AT + "livenessProbe"}),
    (
        (*C, "livenessProbe"),
        {**PROBE, "successThreshold": 2},
        {AT + "livenessProbe.successThreshold"},
    ),
    ((*C, "readinessProbe"), {**PROBE, "successThreshold": 2}, set()),
    ((*C, "readinessProbe"), {**PROBE, "periodSeconds": -1}, {AT + "readinessProbe.periodSeconds"}),
    ((*C, "readinessProbe"), {**PROBE, "grpc": {"port": 1}}, {AT + "readinessProbe.grpc"}),
    ((*C, "readinessProbe"), {"exec": {}}, {AT + "readinessProbe.exec.command"}),
    (
        (*C, "readinessProbe"),
        {"httpGet": {"port": 0, "scheme": "FTP"}},
        {AT + "readinessProbe.httpGet.port", AT + "readinessProbe.httpGet.scheme"},
    ),
    ((*C, "readinessProbe"), {"httpGet": {"port": "web"}}, set()),
    ((*C, "lifecycle"), {"preStop": {}}, {AT + "lifecycle.preStop"}),
    (
        (*C, "lifecycle"),
        {"preStop": {"sleep": {"seconds": 31}}},
        {AT + "lifecycle.preStop.sleep"},
    ),
    ((*C, "lifecycle"), {"preStop": {"sleep": {"seconds": 0}}}, set()),
    (
        (*C, "resources"),
        {"limits": {"cpu": "-1"}},
        {AT + "resources.limits[cpu]", AT + "resources.requests[cpu]"},
    ),
    (
        (*C, "resources"),
        {"limits": {"gpu": "1"}},
        {AT + "resources.limits[gpu]", AT + "resources.requests[gpu]"},
    ),
    ((*C, "resources"), {"requests": {"nvidia.com/gpu": "1"}}, {AT + "resources.limits"}),
    ((*C, "resources"), {"limits": {"hugepages-2Mi": "2Mi"}}, {AT + "resources"}),
    ((*C, "securityContext"), {"runAsUser": -1}, {AT + "securityContext.runAsUser"}),
    (
        (*C, "securityContext"),
        {"privileged": True, "allowPrivilegeEscalation": False},
        {AT + "securityContext"},
    ),
    (("spec", "containers"), [], {"spec.containers"}),
    (
        ("spec", "initContainers"),
        [{"name": "i", "image": "b", "livenessProbe": PROBE}],
        {"spec.initContainers[0].livenessProbe"},
    ),
    (
        ("spec", "initContainers"),
        [{"name": "i", "image": "b", "livenessProbe": PROBE, "restartPolicy": "Always"}],
        set(),
    ),
    (("spec", "initContainers"), [{"name": "a", "image": "b"}], {"spec.initContainers[0].name"}),
    (("spec", "volumes", 0), {"name": ""}, {"spec.volumes[0].name"}),
    (("spec", "volumes", 0), {"name": "c"}, {"spec.volumes[1].name"}),
    (
        ("spec", "volumes", 0),
        {"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}},
        {"spec.volumes[0].hostPath"},
    ),
    (
        ("spec", "volumes", 0),
        {"name": "v", "hostPath": {"path": "/a/../b", "type": "Wild"}},
        {"spec.volumes[0].hostPath.path", "spec.volumes[0].hostPath.type"},
    ),
    (("spec", "volumes", 0), {"name": "v", "configMap": {}}, {"spec.volumes[0].configMap.name"}),
    (
        ("spec", "volumes", 0),
        {"name": "v", "secret": {"secretName": "s", "defaultMode": 512}},
        {"spec.volumes[0].secret.defaultMode"},
    ),
    (
        ("spec", "volumes", 0),
        {"name": "v", "projected": {"sources": [{}]}},
        {"spec.volumes[0].projected.sources[0]"},
    ),
    (
        ("spec", "volumes", 0),
        {"name": "v", "projected": {"sources": [
            {"serviceAccountToken": {"path": "t", "expirationSeconds": 599}}]}},
        {"spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds"},
    ),
    (
        ("spec", "volumes", 0),
        {"name": "v", "downwardAPI": {"items": [{"path": "p"}]}},
        {"spec.volumes[0].downwardAPI.items[0]"},
    ),
    (
        ("spec", "volumes", 0),
        {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes",
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]",
        },
    ),
    (("spec", "restartPolicy"), "Sometimes", {"spec.restartPolicy"}),
    (("spec", "dnsPolicy"), "None", {"spec.dnsConfig.nameservers"}),
    (("spec", "activeDeadlineSeconds"), 0, {"spec.activeDeadlineSeconds"}),
    (("spec", "nodeSelector"), {"a b": "c"}, {"spec.nodeSelector"}),
    (("spec", "serviceAccountName"), "A_b", {"spec.serviceAccountName"}),
    (("spec", "hostname"), "a.b", {"spec.hostname"}),
    (("spec", "hostAliases"), [{"ip": "1.2.3"}], {"spec.hostAliases[0].ip"}),
    (
        ("spec", "readinessGates"),
        [{"conditionType": "a b"}],
        {"spec.readinessGates[0].conditionType"},
    ),
    (("spec", "imagePullSecrets"), [{}], set()),  # a warning
    (("spec", "overhead"), {"cpu": "-1"}, {"spec.overhead[cpu]"}),
    (("spec", "tolerations"), [{"operator": "Exists"}], set()),
    (("spec", "tolerations"), [{"key": "k", "operator": "Wild"}], {"spec.tolerations[0].operator"}),
    (("spec", "tolerations"), [{"operator": "Equal"}], {"spec.tolerations[0].operator"}),
    (
        ("spec", "tolerations"),
        [{"key": "k", "operator": "Exists", "tolerationSeconds": 1}],
        {"spec.tolerations[0].effect"},
    ),
    (ANTI, [TERM], set()),
    (ANTI, [{}], {".".join(ANTI) + "[0].topologyKey"}),
    (NODE, {"nodeSelectorTerms": []}, {".".join(NODE) + ".nodeSelectorTerms"}),
    (
        NODE,
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]},
        {".".join(NODE) + ".nodeSelectorTerms[0].matchExpressions[0].values"},
    ),
    (
        NODE,
        {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}]},
        {".".join(NODE) + ".nodeSelectorTerms[0].matchExpressions[0].values[0]"},
    ),
    (
        ("spec", "topologySpreadConstraints"),
        [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "Never"}],
        {
            "spec.topologySpreadConstraints[0].maxSkew",
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "refused"),
    ROWS,
    ids=lambda v: str(sorted(v) if isinstance(v, set | frozenset) else v)[:70],
)
def test_pods(path: tuple[str | int, ...], value: Any, refused: set[str]) -> None:
    assert fields(refusal(put(POD, path, value))) == refused


def test_every_container_is_looked_at() -> None:
    both = put(POD, ("spec", "initContainers"), [{"name": "I", "image": "x"}])
    both = put(both, (*C, "name"), "A")
    assert fields(refusal(both)) == {"spec.containers[0].name", "spec.initContainers[0].name"}


@pytest.mark.parametrize(
    ("container", "kruise", "server"),
    [
        ({"env": [{"name": "a b"}]}, {"env[0].name"}, set()),
        (
            {"lifecycle": {"preStop": {"sleep": {"seconds": 0}}}},
            {"lifecycle.preStop.sleep"},
            set(),
        ),
    ],
)
def test_openkruise_judges_templates_by_an_older_release(
    container: dict[str, Any], kruise: set[str], server: set[str]
) -> None:
    template = default_template(
        {"spec": {"containers": [{"name": "a", "image": "b", **container}]}}
    )
    for dialect, expected in ((KRUISE, kruise), (SERVER, server)):
        found = {p.field for p in template_problems(template, ("t",), dialect)}
        assert found == {f"t.spec.containers[0].{field}" for field in expected}


def test_host_network_ports_must_agree_but_may_be_left_out_of_templates() -> None:
    spec = {
        "hostNetwork": True,
        "containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 80}]}],
    }
    assert not list(template_problems(default_template({"spec": spec}), ("t",)))
    assert admitted({**POD, "spec": spec})["spec"]["containers"][0]["ports"][0]["hostPort"] == 80
    other = put(spec, ("containers", 0, "ports", 0, "hostPort"), 81)
    assert fields(refusal({**POD, "spec": other})) == {AT + "ports[0].hostPort"}


def test_templates_take_no_ephemeral_containers() -> None:
    spec = {"containers": [{"name": "a", "image": "b"}], "ephemeralContainers": [{"name": "e"}]}
    found = template_problems(default_template({"spec": spec}), ("t",))
    assert "t.spec.ephemeralContainers" in {p.field for p in found}

"""Warnings about accepted writes, as a kube-apiserver 1.34 words them."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.names import GroupKind
from gitkruise.world.write.warnings import of_write

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NO_SELECTOR = "labelSelector: a null labelSelector results in matching no pod"
OLD_ARCH = 'beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead'
EXPRESSIONS = {"matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "Exists"}]}


def warned(container: dict[str, Any], **spec: Any) -> list[str]:
    obj = {"spec": {"containers": [{"name": "a", "image": "a:1", **container}], **spec}}
    return list(of_write(GroupKind("", "Pod"), obj))


@pytest.mark.parametrize(
    ("env", "texts"),
    [
        ([{"name": "A", "value": "1"}, {"name": "B"}], []),
        (
            [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
            [('spec.containers[0].env[1]: hides previous definition of "A", which may be dropped '
             "when using apply")],
        ),
        ([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A):2"}], []),
    ],
)  # fmt: skip
def test_a_variable_that_hides_another(env: list[dict[str, str]], texts: list[str]) -> None:
    assert warned({"env": env}) == texts


def test_amounts_of_less_than_a_byte() -> None:
    amounts = {"limits": {"memory": "1"}, "requests": {"memory": "128m", "cpu": "1m"}}
    assert warned({"resources": amounts}) == [
        (
            'spec.containers[0].resources.requests[memory]: fractional byte value "128m" '
            "is invalid, must be an integer"
        )
    ]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"nodeSelector": {OLD_ZONE: "z"}},
            (f'spec.nodeSelector[{OLD_ZONE}]: deprecated since v1.17; '
            'use "topology.kubernetes.io/zone" instead'),
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone"}]},
            f"spec.topologySpreadConstraints[0].{NO_SELECTOR}",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": OLD_ZONE, "labelSelector": {}}]},
            (f"spec.topologySpreadConstraints[0].topologyKey: {OLD_ZONE} is deprecated "
            'since v1.17; use "topology.kubernetes.io/zone" instead'),
        ),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "z"}]}}},
            f"spec.affinity.podAntiAffinity.{REQUIRED}[0].{NO_SELECTOR}",
        ),
        (
            {"affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {}}]}}},
            f"spec.affinity.podAffinity.{PREFERRED}[0].podAffinityTerm.{NO_SELECTOR}",
        ),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [EXPRESSIONS]}}}},
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].key: "
            + OLD_ARCH,
        ),
        (
            {"affinity": {"nodeAffinity": {PREFERRED: [{"preference": EXPRESSIONS}]}}},
            f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].key: "
            + OLD_ARCH,
        ),
        (
            {"hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]},
            'spec.hostAliases[1].ip: duplicate ip "1.1.1.1"',
        ),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]},
            'spec.imagePullSecrets[1].name: duplicate name "a"',
        ),
        (
            {"terminationGracePeriodSeconds": -1},
            ("spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and "
            "will be treated as 1"),
        ),
        ({"imagePullSecrets": [{}]}, 'spec.imagePullSecrets[0].name: invalid empty name ""'),
        (
            {"volumes": [{"name": "v", "rbd": {}}]},
            "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
        ),
    ],
)  # fmt: skip
def test_a_pod_spec_with_what_has_no_effect(spec: dict[str, Any], text: str) -> None:
    assert warned({}, **spec) == [text]


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        ({"tls.crt": "eA==", "tls.key": "eA=="},
         ["tls: failed to find any PEM data in certificate input"]),
        ({"tls.crt": "LS0tLS1CRUdJTiA=", "tls.key": "eA=="},
         ["tls: failed to find any PEM data in key input"]),
        ({"tls.crt": "LS0tLS1CRUdJTiA=", "tls.key": "LS0tLS1CRUdJTiA="}, []),
    ],
)  # fmt: skip
def test_a_certificate_that_is_none(data: dict[str, str], texts: list[str]) -> None:
    secret = {"type": "kubernetes.io/tls", "data": data}
    assert list(of_write(GroupKind("", "Secret"), secret)) == texts

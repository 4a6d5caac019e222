"""An empty word that Go takes for none is not sent; every other empty text is."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.primitives.names import split_api_version
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.schema.empty_words import without_empty_words
from tests.fuzz.commits import taken, text_of
from tests.worlds import cloneset, deployment

POD = ("spec", "template", "spec")
CONTAINER = (*POD, "containers", 0)
EMPTY: tuple[tuple[str | int, ...], ...] = (
    (*POD, "restartPolicy"),
    (*POD, "dnsPolicy"),
    (*CONTAINER, "imagePullPolicy"),
    (*CONTAINER, "terminationMessagePolicy"),
    (*CONTAINER, "terminationMessagePath"),
    (*POD, "schedulerName"),
)
ELSEWHERE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("apps/v1", "Deployment", ("spec", "strategy", "type")),
    ("apps/v1", "DaemonSet", ("spec", "updateStrategy", "type")),
    ("apps/v1", "StatefulSet", ("spec", "updateStrategy", "type")),
    ("apps/v1", "StatefulSet", ("spec", "podManagementPolicy")),
    ("batch/v1", "CronJob", ("spec", "concurrencyPolicy")),
    ("v1", "PersistentVolume", ("spec", "persistentVolumeReclaimPolicy")),
    ("v1", "Secret", ("type",)),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", ("roleRef", "apiGroup")),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", ("subjects", "0", "apiGroup")),
)
SERVICE: dict[str, Any] = {
    "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
    "spec": {"type": "", "sessionAffinity": "", "ports": [{"port": 80, "protocol": ""}]},
}  # fmt: skip


def test_words_of_pods_and_services_are_left_out() -> None:
    for obj in (deployment("web"), cloneset("web", 2)):
        written: Any = obj
        for path in EMPTY:
            written = put(written, path, "")
        result = taken(text_of([written]))
        assert result.errors == []
        assert all(get(result.objects[0].obj, *path) is None for path in EMPTY)
    result = taken(text_of([SERVICE]))
    assert result.errors == []
    assert result.objects[0].obj["spec"] == {"ports": [{"port": 80}]}


@pytest.mark.parametrize(("api_version", "kind", "path"), ELSEWHERE)
def test_words_of_other_kinds_are_left_out(
    api_version: str, kind: str, path: tuple[str, ...]
) -> None:
    node = load_catalog().by_kind(*split_api_version(api_version), kind)
    assert node is not None
    value: Any = {path[-1]: "", "kept": ""}
    for name in reversed(path[:-1]):
        value = [value] if name == "0" else {name: value}
    left = without_empty_words(node.strict, value)
    *above, last = path
    holder: Any = left
    for name in above:
        holder = holder[int(name) if name == "0" else name]
    assert last not in holder
    assert holder["kept"] == ""


@pytest.mark.parametrize(
    ("api_version", "kind", "field"),
    [("batch/v1", "Job", "completionMode"), ("batch/v1", "Job", "podReplacementPolicy")],
)
def test_a_word_that_the_server_refuses_when_it_is_empty_is_sent(
    api_version: str, kind: str, field: str
) -> None:
    node = load_catalog().by_kind(*split_api_version(api_version), kind)
    assert node is not None
    value = {"spec": {field: ""}}
    assert without_empty_words(node.strict, value) == value


def test_other_texts_stay_as_they_are() -> None:
    node = load_catalog().by_kind("apps", "v1", "Deployment")
    assert node is not None
    plain = put(deployment("web"), (*CONTAINER, "env"), [{"name": "A", "value": ""}])
    assert without_empty_words(node.strict, plain) == plain
    whole = deployment("web")
    assert without_empty_words(node.strict, whole) is whole
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": ""}]
    (finding,) = taken(text_of([put(whole, (*POD, "topologySpreadConstraints"), spread)])).errors
    assert finding.code == "GK1204"

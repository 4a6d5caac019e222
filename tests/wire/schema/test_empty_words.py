"""An empty word that Go takes for none is not sent; every other empty text is."""

from __future__ import annotations

from typing import Any

from gitkruise.kube.system.package_data import load_catalog
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

"""Advanced StatefulSets in a model cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, Obj
from tests.worlds import SPACE, Lab, template

CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
ASKED: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
DATA: Final = {"metadata": {"name": "data"}, "spec": ASKED}
GATE: Final = {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}]}
IN_PLACE: Final = {"podUpdatePolicy": "InPlaceIfPossible"}


def advanced(
    replicas: int = 3,
    *,
    image: str = "app:v1",
    pod: Obj | None = None,
    rolling: Obj | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """An Advanced StatefulSet `db`; `pod` are fields of pods, `rolling` of rollingUpdate."""
    body = {
        "replicas": replicas,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": template(image, app="db", **(pod or {})),
        **({"updateStrategy": {"rollingUpdate": rolling}} if rolling is not None else {}),
        **spec,
    }
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": body,
    }


class StatefulLab(Lab):
    """A Lab with one Advanced StatefulSet that has come to rest."""

    def __init__(self, *, gates: Gates | None = None, **spec: Any) -> None:
        super().__init__(gates=gates)
        self.apply(advanced(**spec))
        self.run()

    def change(self, seconds: float = 600, **spec: Any) -> None:
        """Merge fields into the spec, and let time pass."""
        self.patch(advanced(), {"spec": spec})
        self.run(seconds)

    def update(self, image: str = "app:v2", seconds: float = 600, **rolling: Any) -> None:
        """Change the image of its container, and fields of its rollingUpdate."""
        spec: dict[str, Any] = {"template": self.status_of()["spec"]["template"]}
        spec["template"]["spec"]["containers"][0]["image"] = image
        if rolling:
            spec["updateStrategy"] = {"rollingUpdate": rolling}
        self.change(seconds, **spec)

    def rolling(self, seconds: float = 600, **fields: Any) -> None:
        """Change fields of rollingUpdate."""
        self.change(seconds, updateStrategy={"rollingUpdate": fields})

    def status_of(self) -> Any:
        return _copy(self.get(advanced()))

    @property
    def status(self) -> Obj:
        found: Obj = self.get(advanced())["status"]
        return found

    @property
    def names(self) -> list[str]:
        return [p["metadata"]["name"] for p in self.pods()]

    @property
    def images(self) -> dict[str, str]:
        """Tags by pod."""
        return {
            p["metadata"]["name"]: p["spec"]["containers"][0]["image"].partition(":")[2]
            for p in self.pods()
        }

    @property
    def uids(self) -> dict[str, str]:
        return {p["metadata"]["name"]: p["metadata"]["uid"] for p in self.pods()}

    def claims(self) -> list[str]:
        return [c["metadata"]["name"] for c in self.world.objects(CLAIM, SPACE)]

    def pod_named(self, name: str) -> Obj:
        return next(p for p in self.pods() if p["metadata"]["name"] == name)

    def label(self, pod: str, **labels: str | None) -> None:
        """Set labels of a pod; dots and slashes are written as in `LABELS`."""
        found = self.pod_named(pod)
        body = {"metadata": {"labels": {LABELS.get(k, k): v for k, v in labels.items()}}}
        self.patch(found, body)


LABELS: Final = {"specified_delete": "apps.kruise.io/specified-delete"}


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if isinstance(value, list) else value


def lowest_ready(lab: StatefulLab, until: Callable[[], bool], most_s: float = 600) -> int:
    """Fewest ready pods over single seconds, until a condition holds."""
    fewest = len(lab.pods())
    for _ in range(int(most_s)):
        lab.run(1)
        ready = [p for p in lab.pods() if _ready(p)]
        fewest = min(fewest, len(ready))
        if until():
            break
    return fewest


def _ready(pod: Obj) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]

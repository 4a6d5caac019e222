"""ReplicationControllers in the model cluster: sizes, labels, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import InvalidObject
from tests.worlds import Lab, template


def controller(replicas: int | None = 3, **spec: Any) -> dict[str, Any]:
    size = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "old"},
        "spec": {**size, "template": template(app="old"), **spec},
    }


def test_ctl_44_it_keeps_its_pods() -> None:
    lab = Lab()
    lab.apply(controller())
    lab.run()
    assert len(lab.pods()) == 3
    assert lab.get(controller())["status"] == {
        "availableReplicas": 3,
        "fullyLabeledReplicas": 3,
        "observedGeneration": 1,
        "readyReplicas": 3,
        "replicas": 3,
    }
    lab.delete(lab.pods()[0])
    lab.patch(controller(), {"spec": {"replicas": 2}})
    lab.run()
    assert len(lab.pods()) == 2
    assert {"SuccessfulCreate"} <= set(lab.events("old"))


def test_ctl_44_labels_and_selector_come_from_the_template() -> None:
    lab = Lab()
    made = lab.apply(controller(None))
    assert made["spec"]["replicas"] == 1
    assert made["spec"]["selector"] == made["metadata"]["labels"] == {"app": "old"}


def test_ctl_44_a_deleted_one_takes_its_pods_along() -> None:
    lab = Lab()
    lab.apply(controller())
    lab.run()
    lab.delete(controller(), propagationPolicy="Background")
    lab.run()
    assert lab.pods() == []


def test_a_selector_of_other_pods_is_refused() -> None:
    with pytest.raises(InvalidObject) as caught:
        Lab().apply(controller(selector={"app": "new"}))
    assert "`selector` does not match template `labels`" in str(caught.value)

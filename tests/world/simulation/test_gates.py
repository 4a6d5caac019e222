"""Gates that a forecast opens for controllers it does not play."""

from __future__ import annotations

from typing import Any

from gitkruise.world.kubelet.profiles import FAST
from gitkruise.world.simulation.gates import GateOpener
from tests.worlds import SPACE, Lab, container, parts_of, pod

GATE = "example.com/balanced"


def gated(**spec: Any) -> Any:
    made = pod("p", container())
    return {**made, "spec": {**made["spec"], **spec}}


def ready(lab: Lab, raw: Any) -> str:
    conditions = lab.get(raw)["status"].get("conditions") or ()
    return next((c["status"] for c in conditions if c["type"] == "Ready"), "")


def opened(raw: Any, conditions: Any = ()) -> str:
    lab = Lab(parts=[GateOpener(), *parts_of(FAST)])
    lab.apply(raw)
    if conditions:
        lab.patch(raw, {"status": {"conditions": conditions}}, subresource="status")
    lab.run()
    return ready(lab, {**raw, "metadata": {**raw["metadata"], "namespace": SPACE}})


def test_a_pod_with_gates_of_other_controllers_becomes_ready() -> None:
    assert opened(gated(readinessGates=[{"conditionType": GATE}])) == "True"
    assert opened(gated(schedulingGates=[{"name": GATE}])) == "True"


def test_a_condition_that_is_set_stays() -> None:
    closed = [{"type": GATE, "status": "False"}]
    assert opened(gated(readinessGates=[{"conditionType": GATE}]), closed) == "False"


def test_gates_of_openkruise_are_left_to_its_controllers() -> None:
    assert opened(gated(readinessGates=[{"conditionType": "InPlaceUpdateReady"}])) == "False"

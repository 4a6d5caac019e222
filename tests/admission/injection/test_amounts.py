"""resourcesPolicy: which containers count, and what a sidecar gets (SIDE-118 to SIDE-125)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.admission.injection.resources_policy import planned_resources


def app(name: str, limits: str = "", requests: str = "", **more: Any) -> dict[str, Any]:
    """Amounts as `cpu/memory`, `-` for none."""
    resources = {}
    for side, text in (("limits", limits), ("requests", requests)):
        listed = zip(("cpu", "memory"), text.split("/"), strict=False)
        resources[side] = {key: value for key, value in listed if value not in ("", "-")}
    return {"name": name, "resources": resources, **more}


def policy(mode: str, regex: str, limits: str, requests: str) -> dict[str, Any]:
    """Formulas as `cpu;memory`."""
    sides = {}
    for side, text in (("limits", limits), ("requests", requests)):
        listed = zip(("cpu", "memory"), text.split(";"), strict=False)
        sides[side] = {key: value for key, value in listed if value}
    return {
        "targetContainersMode": mode,
        "targetContainersNameRegex": regex,
        "resourcesExpr": sides,
    }


NUMBERS: Final = [
    ("200m/200Mi", "50m/100Mi"),
    ("400m/400Mi", "100m/200Mi"),
]
APPS: Final = [app(f"app{i}", *n) for i, n in enumerate(NUMBERS, 1)]
ENGINES: Final = [app(f"large.engine.v{v}", *n) for v, n in zip((4, 8), NUMBERS, strict=True)]
HALF: Final = "max(cpu*50%,50m)"
NATIVE: Final = {"restartPolicy": "Always"}

ROWS: Final[dict[str, tuple[dict[str, Any], dict[str, Any], str, str]]] = {
    "SIDE-118": (
        {"containers": APPS},
        policy("sum", ".*", "cpu*50%;200Mi", "cpu*50%;100Mi"),
        "300m/200Mi",
        "75m/100Mi",
    ),
    "SIDE-119": (
        {"containers": ENGINES},
        policy("max", "^large.engine.v.*$", HALF, HALF),
        "200m",
        "50m",
    ),
    "SIDE-120": (
        {"containers": ENGINES},
        policy("sum", "^large.engine.v4$", HALF, HALF),
        "100m",
        "50m",
    ),
    "SIDE-122": (
        {
            "containers": [
                app("app1", "200m/200Mi", "100m/100Mi"),
                app("app2", "-/400Mi", "50m/200Mi"),
            ]
        },
        policy("sum", ".*", "cpu*50%;memory*30%", "cpu*30%;memory*20%"),
        "-/180Mi",
        "45m/60Mi",
    ),
    "SIDE-123": (
        {
            "containers": [
                app("app1", "200m/100Mi", "100m/100Mi"),
                app("app2", "400m/-", "200m/-"),
            ]
        },
        policy("max", ".*", "cpu*40%;memory*30%", "cpu*25%;memory*20%"),
        "160m",
        "50m/20Mi",
    ),
    "SIDE-124": (
        {"containers": [app("app1", "", "100m/100Mi"), app("app2")]},
        policy("sum", ".*", "", "cpu*30%;memory*20%"),
        "",
        "30m/20Mi",
    ),
    "SIDE-125": (
        {
            "initContainers": [
                app("net", "400m/800Mi", "200m/400Mi", **NATIVE),
                app("prep", "4/8Gi", "2/4Gi"),
            ],
            "containers": [app("app1", "600m/1200Mi", "300m/600Mi")],
        },
        policy(
            "sum",
            ".*",
            "max(cpu*30%,50m);max(memory*25%,100Mi)",
            "cpu*20%;memory*15%",
        ),
        "300m/500Mi",
        "100m/150Mi",
    ),
    "nothing asked for counts as 0": (
        {"containers": [app("app1")]},
        policy("sum", ".*", "1", "cpu*50%;memory+1Mi"),
        "",
        "0/1Mi",
    ),
    "plain numbers": (
        {"containers": [app("app1", "1/1Gi")]},
        policy("max", ".*", "0.25;memory*0+2.9Mi-0", "1.2345"),
        "250m/3040870400m",
        "1234m",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "rule", "limits", "requests"), ROWS.values(), ids=ROWS)
def test_resources(spec: dict[str, Any], rule: dict[str, Any], limits: str, requests: str) -> None:
    wanted = {key: value for key, value in app("x", limits, requests)["resources"].items() if value}
    assert planned_resources(rule, spec, frozenset()) == wanted


def test_no_container_that_is_meant_is_an_error() -> None:
    """SIDE-121, and sidecars never count."""
    rule = policy("sum", "^app", "1", "")
    with pytest.raises(ValueError, match="matches no container"):
        planned_resources(rule, {"containers": [app("web")]}, frozenset())
    with pytest.raises(ValueError, match="matches no container"):
        planned_resources(rule, {"containers": [app("app1")]}, frozenset({"app1"}))


@pytest.mark.parametrize("pattern", ["(", "(?=x)", r"(a)\1"])
def test_a_pattern_re2_refuses_is_an_error(pattern: str) -> None:
    with pytest.raises(ValueError, match="targetContainersNameRegex"):
        planned_resources(policy("sum", pattern, "1", ""), {"containers": APPS}, frozenset())


def test_a_formula_that_cannot_be_computed_is_named() -> None:
    rule = policy("sum", ".*", "cpu*cpu", "")
    with pytest.raises(ValueError, match=r"limits\.cpu: 'cpu\*cpu': a quantity cannot"):
        planned_resources(rule, {"containers": APPS}, frozenset())


def test_the_name_of_the_memory_variable_decides_what_a_plain_number_means() -> None:
    rule = policy("sum", ".*", "", ";memory*0+1.5")
    spec = {"containers": [app("app1", "", "1/1Gi")]}
    assert planned_resources(rule, spec, frozenset()) == {"requests": {"memory": "1500m"}}
    rule = policy("sum", ".*", "", ";1.5*max(2,3)*1")
    assert planned_resources(rule, spec, frozenset()) == {"requests": {"memory": "4500m"}}

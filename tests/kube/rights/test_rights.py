"""Rights of the controller against its requests, both ways: `make requests` notes these again."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

ROOT: Final = Path(__file__).parents[3]
NOTED: Final = Path(__file__).with_name("requests.txt")


class Right(NamedTuple):
    """A verb on `group/resource[/subresource]`; `name` where the rule or the request has one."""

    verb: str
    resource: str
    name: str = ""


def rights() -> dict[Right, set[str]]:
    """The rights of the controller's account, with the roles that give each."""
    found: dict[Right, set[str]] = defaultdict(set)
    for file in sorted((ROOT / "deploy" / "base").glob("rbac-*.yaml")):
        for role in yaml.safe_load_all(file.read_text()):
            if role["kind"] in {"Role", "ClusterRole"} and role["metadata"]["name"] != VIEWERS:
                for rule in role["rules"]:
                    for right in _of_rule(rule):
                        found[right].add(role["metadata"]["name"])
    return dict(found)


def _of_rule(rule: dict[str, Any]) -> list[Right]:
    return [
        Right(verb, f"{group}/{resource}" if group else resource, name)
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]


VIEWERS: Final = "gitkruise-dashboard-viewer"  # of people, not of the controller
APPLY: Final = "gitkruise-apply"
ASKED: Final = frozenset(Right(*line.split()) for line in NOTED.read_text().splitlines())
GIVEN: Final = rights()
VERBS: Final = {right.verb for right, roles in GIVEN.items() if APPLY in roles}

# Kinds of units in tests, whose users bind a role of their own with the verbs of gitkruise-apply.
OF_UNITS: Final = frozenset({
    "apiextensions.k8s.io/customresourcedefinitions", "example.com/databases",
    "keda.sh/scaledobjects", "secrets",
})  # fmt: skip
# Requests that need no right of ours, with the reason.
FREE: Final = {
    Right("create", "authentication.k8s.io/selfsubjectreviews"): "everybody may",
}
# Rights without a request in these tests, with the reason.
OTHERS: Final = {
    "gitkruise-dashboard": "requests of the dashboard: tests/kube/real/test_dashboard.py",
    "gitkruise-metrics": "requests of the endpoint: tests/kube/real/test_metrics.py",
}
OWNERS: Final = "asked for by OwnerReferencesPermissionEnforcement, for which nothing is requested"
AGAIN: Final = "read again after a conflict"
AGENT: Final = "objects between the controller and node agents: tests/node"
STEERED: Final = "Deployments steered on a real cluster: tests/kube/real/test_deployment_canary.py"
ON_NODES: Final = "wants a kubelet: tests/node"
UNUSED: Final = {
    "apps.kruise.io/clonesets/finalizers": ({"update"}, OWNERS),
    "apps.kruise.io/sidecarsets/finalizers": ({"update"}, OWNERS),
    "apps.kruise.io/statefulsets/finalizers": ({"update"}, OWNERS),
    "apps/deployments/finalizers": ({"update"}, OWNERS),
    "apps.kruise.io/sidecarsets": ({"get"}, AGAIN),
    "apps.kruise.io/statefulsets": ({"get"}, AGAIN),
    "policy.kruise.io/podunavailablebudgets": ({"get"}, AGAIN),
    "apps.kruise.io/containerrecreaterequests": ({"get", "delete"}, AGENT),
    "apps.kruise.io/containerrecreaterequests/status": ({"patch"}, AGENT),
    "apps.kruise.io/imagelistpulljobs": ({"get", "watch", "create", "patch", "delete"}, AGENT),
    "apps.kruise.io/imagelistpulljobs/status": ({"patch"}, AGENT),
    "apps.kruise.io/imagepulljobs": ({"get", "watch", "create", "patch", "delete"}, AGENT),
    "apps.kruise.io/imagepulljobs/status": ({"patch"}, AGENT),
    "apps.kruise.io/nodeimages": ({"get", "watch", "create", "patch", "delete"}, AGENT),
    "apps.kruise.io/nodeimages/status": ({"patch"}, AGENT),
    "apps/replicasets": ({"get", "create", "patch", "delete"}, STEERED),
    "persistentvolumeclaims": ({"get", "delete"}, "claims of Advanced StatefulSets: tests/kube"),
    "pods/resize": ({"patch"}, ON_NODES),
}


def test_every_request_is_allowed() -> None:
    """A list of a kind without rules is that of the inventory, which knows refusals."""
    ruled = {right.resource for right in GIVEN}
    wrong = {
        asked
        for asked in ASKED - GIVEN.keys() - FREE.keys()
        if asked.resource in ruled or asked.verb != "list"
        if asked.resource not in OF_UNITS or asked.verb not in VERBS
    }
    assert wrong == set()


def test_every_right_is_used() -> None:
    unused: dict[str, set[str]] = defaultdict(set)
    for right, roles in GIVEN.items():
        if right not in ASKED and roles - {APPLY, *OTHERS}:
            unused[" ".join(filter(None, (right.resource, right.name)))].add(right.verb)
    assert unused == {resource: verbs for resource, (verbs, _) in UNUSED.items()}


def test_every_verb_of_what_git_brings_is_used() -> None:
    kinds = {right.resource for right, roles in GIVEN.items() if APPLY in roles}
    assert {asked.verb for asked in ASKED if asked.resource in kinds} >= VERBS


def test_reasons_are_about_requests_and_roles_that_exist() -> None:
    assert FREE.keys() <= ASKED
    assert set(OTHERS) <= set().union(*GIVEN.values())
    assert {asked.resource for asked in ASKED} >= OF_UNITS

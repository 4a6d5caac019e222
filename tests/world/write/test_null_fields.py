"""A null for a field of a built-in kind means that it is not set, in every kind of write."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.paths import get
from tests.world.api_client import Api

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LABELS = {"app": "web"}


def deployment(metadata: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "main", "image": "nginx:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": metadata, "spec": {"containers": [container]}},
        },
    }


NULLED = {"creationTimestamp": None, "labels": LABELS}


@pytest.mark.parametrize("write", ["create", "update", "json patch", "merge patch"])
def test_a_null_time_in_a_template_is_no_time(write: str) -> None:
    """`kubectl rollout undo` sends the old template so, by JSON patch."""
    api = Api()
    if write == "create":
        api.post(DEPLOYMENTS, deployment(NULLED))
    else:
        stored = api.post(DEPLOYMENTS, deployment({"labels": LABELS}))
        template = {**stored["spec"]["template"], "metadata": NULLED}
        changed = {**stored, "spec": {**stored["spec"], "template": template}}
        if write == "update":
            api.send("PUT", f"{DEPLOYMENTS}/web", changed)
        elif write == "json patch":
            operation = {"op": "replace", "path": "/spec/template", "value": template}
            api.json_patch(f"{DEPLOYMENTS}/web", [operation])
        else:
            api.merge(f"{DEPLOYMENTS}/web", {"spec": {"template": template}})
    found = api.get(f"{DEPLOYMENTS}/web")
    assert get(found, "spec", "template", "metadata") == {"labels": LABELS}

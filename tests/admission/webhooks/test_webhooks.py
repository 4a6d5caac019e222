"""Match of writes against the rules of a registered webhook, and the form of the review."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.admission.webhooks.matching import (
    RequestForm,
    Webhook,
    Write,
    form_for,
    read_webhooks,
    review,
)
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.primitives.requests import ResourceRef

PODS = ResourceRef("", "v1", "pods")
SPACES = ResourceRef("", "v1", "namespaces")
ROLES = ResourceRef("rbac.authorization.k8s.io", "v1", "clusterroles")
BETA = ResourceRef("apps.kruise.io", "v1beta1", "clonesets")
ALPHA = ResourceRef("apps.kruise.io", "v1alpha1", "clonesets")
KINDS = {
    PODS: "Pod", SPACES: "Namespace", ROLES: "ClusterRole", BETA: "CloneSet", ALPHA: "CloneSet",
}  # fmt: skip


def webhook(*rules: dict[str, Any], **more: Any) -> Webhook:
    hook = {"name": "a.example.com", "clientConfig": {}, "rules": list(rules), **more}
    configuration = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "a"}}
    (found,) = read_webhooks([{**configuration, "webhooks": [hook]}])
    return found


def rule(group: str, resource: str, version: str = "*", **more: Any) -> dict[str, Any]:
    named = {"apiGroups": [group], "apiVersions": [version], "resources": [resource]}
    return {"operations": ["*"], **named, **more}


def write(
    ref: ResourceRef, *, operation: str = "CREATE", subresource: str = "", space: str = "shop"
) -> Write:
    return Write(
        operation=operation,
        resource=ref,
        subresource=subresource,
        kind=(ref.group, ref.version, KINDS[ref]),
        namespace=space,
        name="a",
        obj={"metadata": {"name": "a"}},
        old=None,
        dry_run=False,
        user={"username": "somebody"},
        options={},
    )


@pytest.mark.parametrize(
    ("given", "asked", "meant"),
    [
        (rule("", "pods"), write(PODS), True),
        (rule("", "pods"), write(PODS, subresource="status"), False),
        (rule("", "pods/status"), write(PODS, subresource="status"), True),
        (rule("", "pods/status"), write(PODS), False),
        (rule("", "pods/*"), write(PODS, subresource="binding"), True),
        (rule("", "pods/*"), write(PODS), True),
        (rule("", "*"), write(PODS, subresource="status"), False),
        (rule("", "*/status"), write(PODS, subresource="status"), True),
        (rule("*", "*/*"), write(ROLES, space=""), True),
        (rule("apps", "pods"), write(PODS), False),
        (rule("", "pods", "v2"), write(PODS), False),
        (rule("", "pods", operations=["UPDATE", "DELETE"]), write(PODS), False),
        (rule("", "pods", operations=["DELETE"]), write(PODS, operation="DELETE"), True),
        (rule("", "pods", scope="Cluster"), write(PODS), False),
        (rule("", "pods", scope="Namespaced"), write(PODS), True),
        (rule("*", "*", scope="Cluster"), write(ROLES, space=""), True),
        (rule("*", "*", scope="Namespaced"), write(ROLES, space=""), False),
        (rule("", "namespaces", scope="Cluster"), write(SPACES, space="a"), True),
        (rule("", "namespaces", scope="Namespaced"), write(SPACES, space="a"), False),
    ],
)
def test_a_rule_means_a_write(given: dict[str, Any], asked: Write, *, meant: bool) -> None:
    assert (form_for(webhook(given), asked, []) is not None) is meant


CLONESETS = [kind for kind in load_catalog().kinds() if kind.plural == "clonesets"]
ALPHA_FORM = RequestForm(ALPHA, ("apps.kruise.io", "v1alpha1", "CloneSet"))
BETA_FORM = RequestForm(BETA, ("apps.kruise.io", "v1beta1", "CloneSet"))


@pytest.mark.parametrize(
    ("versions", "policy", "form"),
    [
        (["v1alpha1"], "Equivalent", ALPHA_FORM),
        (["v1alpha1"], None, ALPHA_FORM),
        (["v1alpha1"], "Exact", None),
        (["v1beta1"], "Exact", BETA_FORM),
        (["v1alpha1", "v1beta1"], "Equivalent", BETA_FORM),
        (["v3"], "Equivalent", None),
    ],
)
def test_a_webhook_is_called_in_a_version_it_knows(
    versions: list[str], policy: str | None, form: RequestForm | None
) -> None:
    rules = [rule("apps.kruise.io", "clonesets", version) for version in versions]
    hook = webhook(*rules, **({"matchPolicy": policy} if policy else {}))
    assert form_for(hook, write(BETA), CLONESETS) == form


def test_a_scale_keeps_its_kind_in_another_version() -> None:
    hook = webhook(rule("apps.kruise.io", "clonesets/scale", "v1alpha1"))
    asked = write(BETA, operation="UPDATE", subresource="scale")
    scale = ("autoscaling", "v1", "Scale")
    scaled = Write(**{**{n: getattr(asked, n) for n in asked.__slots__}, "kind": scale})
    form = form_for(hook, scaled, CLONESETS)
    assert form == RequestForm(ALPHA, scale)
    assert form is not None
    request = review(scaled, form, {}, {})
    assert (request["resource"]["version"], request["requestResource"]["version"]) == (
        "v1alpha1",
        "v1beta1",
    )

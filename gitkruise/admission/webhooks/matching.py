"""Registered admission webhooks: parsed configurations and the match of a write against them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import NAMESPACES, ResourceRef
from gitkruise.wire.values.selectors import Selector, label_selector

GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = GroupKind(GROUP, "MutatingWebhookConfiguration")
VALIDATING: Final = GroupKind(GROUP, "ValidatingWebhookConfiguration")
# What no webhook may stand in the way of: it could never be taken back.
EXEMPT: Final = frozenset(
    {
        MUTATING,
        VALIDATING,
        GroupKind(GROUP, "ValidatingAdmissionPolicy"),
        GroupKind(GROUP, "ValidatingAdmissionPolicyBinding"),
    }
)
TIMEOUT_S: Final = 10
_HARMLESS: Final = frozenset({"None", "NoneOnDryRun"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Webhook:
    """One webhook of a configuration. `uid` identifies it among all that are registered."""

    uid: str
    name: str
    mutating: bool
    rules: Sequence[Obj]
    equivalent: bool  # matchPolicy: other versions of the resource in a rule match, too
    namespaces: Selector
    objects: Selector
    conditions: Sequence[Obj]
    client: Obj
    ignored: bool  # failurePolicy: a call that fails is as good as none
    timeout_s: int
    dry_runs: bool  # it may be asked about what is not going to be written
    again: bool  # reinvocationPolicy IfNeeded
    versions: Sequence[str]  # of AdmissionReview


def read_webhooks(configurations: Iterable[Obj]) -> tuple[Webhook, ...]:
    """The webhooks of configurations of one kind (in name order), in the order they are asked."""
    return tuple(
        _webhook(configuration, index, raw)
        for configuration in configurations
        for index, raw in enumerate(configuration.get("webhooks") or ())
    )


def _webhook(configuration: Obj, index: int, raw: Obj) -> Webhook:
    return Webhook(
        uid=f"{configuration['kind']}/{configuration['metadata']['name']}/{index}/{raw['name']}",
        name=raw["name"],
        mutating=configuration["kind"] == MUTATING.kind,
        rules=raw.get("rules") or (),
        equivalent=raw.get("matchPolicy") != "Exact",
        namespaces=label_selector(raw.get("namespaceSelector") or {}),
        objects=label_selector(raw.get("objectSelector") or {}),
        conditions=raw.get("matchConditions") or (),
        client=raw["clientConfig"],
        ignored=raw.get("failurePolicy") == "Ignore",
        timeout_s=raw.get("timeoutSeconds") or TIMEOUT_S,
        dry_runs=raw.get("sideEffects") in _HARMLESS,
        again=raw.get("reinvocationPolicy") == "IfNeeded",
        versions=raw.get("admissionReviewVersions") or (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The content of an AdmissionReview request; objects are in the version of `kind`.

    `kind` is the (group, version, kind) of the objects: of a Scale, not of what is scaled.
    `namespace` of a Namespace is its own name, `name` "" while it has none. `user` and `options`
    are UserInfo and the options as objects.
    """

    operation: str
    resource: ResourceRef
    subresource: str
    kind: tuple[str, str, str]
    namespace: str
    name: str
    obj: Obj | None
    old: Obj | None
    dry_run: bool
    user: Obj
    options: Obj


@dataclass(frozen=True, slots=True)
class RequestForm:
    """The resource and the kind a webhook wants a write in."""

    resource: ResourceRef
    kind: tuple[str, str, str]


def form_for(webhook: Webhook, write: Write, versions: Sequence[Kind]) -> RequestForm | None:
    """The form a webhook's rules ask for, None when no rule means the write.

    `versions` are all versions the resource is served in. The version of the request comes first;
    then, unless the policy is Exact, the earliest rule that means another one.
    """
    asked = write.resource
    if any(_means(rule, write, asked) for rule in webhook.rules):
        return RequestForm(asked, write.kind)
    if not webhook.equivalent:
        return None
    for rule in webhook.rules:
        for kind in versions:
            if kind.version != asked.version and _means(rule, write, kind.ref):
                own = not write.subresource or write.kind[0] == asked.group
                named = (kind.group, kind.version, kind.kind) if own else write.kind
                return RequestForm(kind.ref, named)
    return None


def might_mean(webhook: Webhook, operation: str, resource: ResourceRef, subresource: str) -> bool:
    """Return whether a rule matches such writes in any scope and version."""
    return any(
        _listed(operation, rule.get("operations"))
        and _listed(resource.group, rule.get("apiGroups"))
        and any(_names(text, resource, subresource) for text in rule.get("resources") or ())
        for rule in webhook.rules
    )


def _means(rule: Obj, write: Write, resource: ResourceRef) -> bool:
    """Return whether a rule matches a write of `resource`. Source: the server's rules matcher."""
    return (
        _in_scope(rule.get("scope"), write, resource)
        and _listed(write.operation, rule.get("operations"))
        and _listed(resource.group, rule.get("apiGroups"))
        and _listed(resource.version, rule.get("apiVersions"))
        and any(_names(text, resource, write.subresource) for text in rule.get("resources") or ())
    )


def _in_scope(scope: Any, write: Write, resource: ResourceRef) -> bool:
    """A Namespace is of the cluster's scope, whatever namespace a request for it names."""
    if scope in (None, "*"):
        return True
    inside = resource != NAMESPACES and bool(write.namespace)
    return inside is (scope == "Namespaced")


def _listed(wanted: str, names: Sequence[str] | None) -> bool:
    return names is not None and ("*" in names or wanted in names)


def _names(text: str, resource: ResourceRef, door: str) -> bool:
    """`pods`, `pods/status`, `*`, `pods/*`, `*/scale` or `*/*`."""
    plural, _, subresource = text.partition("/")
    return plural in ("*", resource.plural) and subresource in ("*", door)


def review(write: Write, form: RequestForm, obj: Obj | None, old: Obj | None) -> dict[str, Any]:
    """The `request` of an AdmissionReview (v1) but for its uid; objects are in `form`'s version."""
    group, version, kind = form.kind
    of = write.resource
    asked: Mapping[str, Any] = {
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": _resource(form.resource),
        "subResource": write.subresource,
        "requestKind": dict(zip(("group", "version", "kind"), write.kind, strict=True)),
        "requestResource": _resource(of),
        "requestSubResource": write.subresource,
        "name": write.name,
        "namespace": write.namespace,
    }
    request = {name: value for name, value in asked.items() if value}
    return {
        **request,
        "operation": write.operation,
        "userInfo": write.user,
        "object": obj,
        "oldObject": old,
        "dryRun": write.dry_run,
        "options": write.options,
    }


def _resource(ref: ResourceRef) -> dict[str, str]:
    return {"group": ref.group, "version": ref.version, "resource": ref.plural}

"""Webhook configurations at admission: the defaults kube-apiserver gives them, and its rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gitkruise.admission.pods.defaults import fresh
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.engine import each, unique
from gitkruise.admission.rules.field_errors import Path, duplicate, invalid, required, unsupported
from gitkruise.admission.rules.labels import selector_problems
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.admission.webhooks.matching import MUTATING, TIMEOUT_S, VALIDATING
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.kruise.template_defaults import Defaults, fill
from gitkruise.wire.primitives.names import Obj

KINDS: Final = frozenset({MUTATING, VALIDATING})
_VERSIONS: Final = ("v1", "v1beta1")  # of AdmissionReview, as the server's text lists them
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_CHOICES: Final = (
    ("failurePolicy", ("Fail", "Ignore")),
    ("matchPolicy", ("Equivalent", "Exact")),
)
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_AGAIN: Final = ("IfNeeded", "Never")
_TIMEOUT: Final = "the timeout value must be between 1 and 30 seconds"
_SECONDS: Final = range(1, 31)
_PORTS: Final = range(1, 65_536)
_NO_PORT: Final = f"port is not valid: {formats.PORT_SENTENCE}"
_CONDITIONS_MAX: Final = 64
_FORM: Final = "; desired format: https://host[/path]"
# (scheme, authority, query, fragment) of a URL. Source: RFC 3986, appendix B.
_URL: Final = re.compile(
    r"(?:([^:/?#]+):)?(?://([^/?#]*))?[^?#]*(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
_LABEL_1035: Final = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_NO_LABEL: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123',"
    " regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_DEFAULTS: Final = Defaults(
    (
        (("webhooks", "*"), "failurePolicy", "Fail"),
        (("webhooks", "*"), "matchPolicy", "Equivalent"),
        (("webhooks", "*"), "namespaceSelector", {}),
        (("webhooks", "*"), "objectSelector", {}),
        (("webhooks", "*"), "timeoutSeconds", TIMEOUT_S),
        (("webhooks", "*", "rules", "*"), "scope", "*"),
        (("webhooks", "*", "clientConfig", "service"), "port", 443),
    )
)
_MUTATING: Final = Defaults(((("webhooks", "*"), "reinvocationPolicy", "Never"),))


def default_configuration(request: AdmissionRequest, _gates: Gates) -> Obj:
    """Source: SetDefaults_MutatingWebhook, SetDefaults_ValidatingWebhook and those below."""
    made = {**request.new, **fresh({"webhooks": request.new.get("webhooks")})}
    for hook in made.get("webhooks") or ():
        if hook.get("clientConfig", {}).get("caBundle") == "":
            del hook["clientConfig"]["caBundle"]
    fill(made, _DEFAULTS)
    if request.key.group_kind == MUTATING:
        fill(made, _MUTATING)
    return made


def configuration_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidateMutatingWebhookConfiguration and ValidateValidatingWebhookConfiguration.

    Conditions are read when they are first asked: an expression that cannot be read has no answer.
    """
    obj: Any = request.obj
    mutating = request.key.group_kind == MUTATING
    hooks: Sequence[Obj] = obj.get("webhooks") or ()
    for index, hook in enumerate(hooks):
        at: Path = ("webhooks", index)
        yield from _webhook(hook, at, mutating=mutating)
        yield from _versions(hook.get("admissionReviewVersions"), (*at, "admissionReviewVersions"))
    yield from unique(hooks, ("webhooks",), "name")


def _webhook(hook: Obj, at: Path, *, mutating: bool) -> Iterator[Problem]:
    yield from _full_name(hook.get("name") or "", (*at, "name"))
    yield from each(hook.get("rules"), (*at, "rules"), _rule)
    for field, allowed in _CHOICES:
        yield from _choice(hook, field, allowed, at)
    if hook.get("sideEffects") is None:
        why = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
        yield required((*at, "sideEffects"), why)
    yield from _choice(hook, "sideEffects", _SIDE_EFFECTS, at)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and seconds not in _SECONDS:
        yield invalid((*at, "timeoutSeconds"), seconds, _TIMEOUT)
    for field in ("namespaceSelector", "objectSelector"):
        yield from selector_problems(hook.get(field), (*at, field))
    if mutating:
        yield from _choice(hook, "reinvocationPolicy", _AGAIN, at)
    yield from _client(hook.get("clientConfig") or {}, (*at, "clientConfig"))
    yield from _conditions(hook.get("matchConditions") or (), (*at, "matchConditions"))


def _choice(hook: Obj, field: str, allowed: tuple[str, ...], at: Path) -> Iterator[Problem]:
    value = hook.get(field)
    if value is not None and value not in allowed:
        yield unsupported((*at, field), value, allowed)


def _full_name(name: str, at: Path) -> Iterator[Problem]:
    """IsFullyQualifiedName: a subdomain of at least three parts."""
    if not name:
        yield required(at)
        return
    yield from (invalid(at, name, sentence) for sentence in formats.dns_subdomain(name))
    if name.count(".") < 2 and not formats.dns_subdomain(name):
        why = "should be a domain with at least three segments separated by dots"
        yield invalid(at, name, why)


def _rule(rule: Obj, at: Path) -> Iterator[Problem]:
    operations = rule.get("operations") or []
    yield from _wild(operations, (*at, "operations"), "operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield unsupported((*at, "operations", index), operation, _OPERATIONS)
    yield from _wild(rule.get("apiGroups") or [], (*at, "apiGroups"), "API groups")
    versions = rule.get("apiVersions") or []
    yield from _wild(versions, (*at, "apiVersions"), "API versions")
    for index, version in enumerate(versions):
        if not version:
            yield required((*at, "apiVersions", index))
    yield from _resources(rule.get("resources") or [], (*at, "resources"))
    if rule.get("scope") is not None and rule["scope"] not in _SCOPES:
        yield unsupported((*at, "scope"), rule["scope"], _SCOPES)


def _wild(names: Sequence[str], at: Path, others: str) -> Iterator[Problem]:
    if not names:
        yield required(at)
    if len(names) > 1 and "*" in names:
        yield invalid(at, names, f"if '*' is present, must not specify other {others}")


def _resources(names: Sequence[str], at: Path) -> Iterator[Problem]:
    if not names:
        yield required(at)
    whole: set[str] = set()  # resources of which every subresource is meant
    everywhere: set[str] = set()  # subresources that are meant of every resource
    plain = False
    for index, name in enumerate(names):
        resource, slash, sub = name.partition("/")
        if not name:
            yield required((*at, index))
            continue
        if not slash:
            plain = name != "*"
            continue
        if resource in whole:
            why = f"if '{resource}/*' is present, must not specify {name}"
            yield invalid((*at, index), name, why)
        if sub in everywhere:
            why = f"if '*/{sub}' is present, must not specify {name}"
            yield invalid((*at, index), name, why)
        whole.update([resource] if sub == "*" else [])
        everywhere.update([sub] if resource == "*" else [])
    if len(names) > 1 and "*/*" in names:
        yield invalid(at, names, "if '*/*' is present, must not specify other resources")
    if "*" in names and plain:
        why = "if '*' is present, must not specify other resources without subresources"
        yield invalid(at, names, why)


def _client(client: Obj, at: Path) -> Iterator[Problem]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(at, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, (*at, "url"))
    elif service is not None:
        yield from _service(service, (*at, "service"))


def _url(url: str, at: Path) -> Iterator[Problem]:
    """ValidateWebhookURL."""
    found = _URL.fullmatch(url)
    assert found is not None  # it matches every text
    scheme, authority, query, fragment = (part or "" for part in found.groups())
    if scheme != "https":
        yield invalid(at, scheme, f"'https' is the only allowed URL scheme{_FORM}")
    user, _, host = authority.rpartition("@")
    if not host:
        yield invalid(at, "", f"host must be specified{_FORM}")
    if user:
        yield invalid(at, user, "user information is not permitted in the URL")
    if fragment:
        yield invalid(at, fragment, "fragments are not permitted in the URL")
    if query:
        yield invalid(at, query, "query parameters are not permitted in the URL")


def _service(service: Obj, at: Path) -> Iterator[Problem]:
    """ValidateWebhookService."""
    for field in ("name", "namespace"):
        if not service.get(field):
            yield required((*at, field))
    if service.get("port") not in _PORTS:
        yield invalid((*at, "port"), service.get("port") or 0, _NO_PORT)
    path = service.get("path") or "/"
    where = (*at, "path")
    if path == "//":
        yield invalid(where, path, "segment[0] may not be empty")
    elif path != "/":
        yield from _path(path, where)


def _path(path: str, at: Path) -> Iterator[Problem]:
    if not path.startswith("/"):
        yield invalid(at, path, "must start with a '/'")
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid(at, path, f"segment[{index}] may not be empty")
            continue
        for sentence in formats.dns_subdomain(step):
            yield invalid(at, path, f"segment[{index}]: {sentence}")


def _conditions(conditions: Sequence[Obj], at: Path) -> Iterator[Problem]:
    """validateMatchConditions but for the reading of expressions."""
    seen: set[str] = set()
    if len(conditions) > _CONDITIONS_MAX:
        why = f"Too many: {len(conditions)}: must have at most {_CONDITIONS_MAX} items"
        yield Problem(at, "FieldValueTooMany", why)
    for index, condition in enumerate(conditions):
        if not (condition.get("expression") or "").strip():
            yield required((*at, index, "expression"))
        name = condition.get("name") or ""
        if not name:
            yield required((*at, index, "name"))
            continue
        yield from (invalid((*at, index, "name"), name, s) for s in formats.qualified_name(name))
        if name in seen:
            yield duplicate((*at, index, "name"), name)
        seen.add(name)


def _versions(versions: Sequence[str] | None, at: Path) -> Iterator[Problem]:
    if not versions:
        yield required(at, f"must specify one of {', '.join(_VERSIONS)}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid((*at, index), version, "duplicate version")
        elif not _LABEL_1035.fullmatch(version):
            yield invalid((*at, index), version, _NO_LABEL)
    if not set(_VERSIONS) & set(versions):
        yield invalid(at, versions, f"must include at least one of {', '.join(_VERSIONS)}")

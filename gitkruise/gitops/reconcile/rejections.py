"""Rejections of the API server, as findings at the lines that caused them.

A change of an immutable field is recognised: its object is replaced, or the finding says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gitkruise.errors import (
    ApiError,
    Finding,
    Forbidden,
    InvalidObject,
    NotFound,
    Problem,
    Retry,
    Severity,
    Untyped,
    invalid_object,
)
from gitkruise.gitops.build.redacted_findings import parse_field, refused_field, unquoted
from gitkruise.gitops.build.validate import served_as, written
from gitkruise.gitops.cluster.live_cache import look_at, unconverted
from gitkruise.gitops.config.other_tools import instead_of_kind
from gitkruise.kube.system.package_data import DRIVEN, KRUISE_GROUPS
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import Desired, FieldPath
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    LIST_PULL_JOB,
    PULL_JOB,
    RECREATE,
    WEBHOOK_SUFFIX,
)
from gitkruise.planner.sync.annotations import DIGEST, annotation, replace_asked
from gitkruise.planner.sync.diff import owned_differences
from gitkruise.planner.sync.prune import holds_data
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import OWN_GROUP, Obj, ObjectKey
from gitkruise.wire.primitives.paths import get

# Kubernetes has several sentences for one rule; all of them speak of a change, never of a value.
_IMMUTABLE: Final = re.compile(
    r"\bimmutable\b|may not change once set|updates to \w+ spec for fields other than"
    r"|updates may not change fields other than|cannot change roleRef|updates to \w+ are forbidden"
    r"|may not be changed in an update"
)
# The API server names the first of the addresses, which it takes from this field.
_FROM: Final = {"spec.clusterIPs[0]": "spec.clusterIP"}
# Kinds whose update rules we know as well as the server does, which may have no webhook for them:
# a commit is rejected for these before anything is sent. Others are left to the dry run.
JUDGED_HERE: Final = frozenset({CLONESET, ADVANCED_STATEFULSET})
_PULLS: Final = frozenset({PULL_JOB, LIST_PULL_JOB})
_PULLED: Final = frozenset(
    ("spec", name) for name in ("image", "images", "selector", "podSelector")
)
_ABSENT: Final = "its CRD is not installed"
_ABSENT_OR_AWAY: Final = "no CRD defines it, and no API server that responds"  # by an APIService
_INSTALL: Final = (
    "install the CRD, or add it to git; kubectl get apiservices names API servers that are away"
)
_MAY_QUOTE: Final = "a warning that may quote a secret"
_COMPLETE: Final = "field is immutable in a complete job: its controller pulls nothing more"
_FREE: Final = re.compile(r"'(\w+)'")  # fields that such a rule lets change
_VALUE: Final = "Invalid value: "
_REGISTERED: Final = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
# What kube-apiserver answers with 500 when a webhook that must agree cannot be asked.
_CALLED: Final = re.compile(r'failed calling webhook "([^"]+)": (.+)', re.DOTALL)
# A 403 of these is a word against the object, not about our rights: webhooks, policies, and the
# admission plugins of the API server, such as PodSecurity and LimitRanger.
_BY_ADMISSION: Final = re.compile(
    "^admission webhook |^policy '"
    '|" is forbidden: (?!user "|exceeded quota: |unable to create new content)',
    re.IGNORECASE,
)
_NAMED: Final = re.compile('" not found$')
_ESCALATION: Final = "attempting to grant RBAC permissions not currently held"
_QUOTA: Final = ": exceeded quota: "
_NAMESPACE: Final = (
    "add the Namespace to git; target.createNamespace: true creates that of target.namespace alone"
)


def immutable(error: ApiError) -> bool:
    """Return whether every cause of a rejection is an immutable field: a new object would pass."""
    causes = error.details.causes
    return (
        isinstance(error, InvalidObject)
        and bool(causes)
        and all(_IMMUTABLE.search(cause.message) for cause in causes)
    )


def kind_is_gone(error: ApiError) -> bool:
    """Return whether the API server knows no path of the kind: otherwise it names what is missing,
    a namespace or a role."""
    unnamed = isinstance(error, NotFound) and not error.details.kind
    other = _BY_ADMISSION.search(error.message) or _NAMED.search(error.message)
    return unnamed and other is None


def pulled_already(d: Desired, live: Obj) -> InvalidObject | None:
    """Return the error of a commit that changes what a finished job for images pulls, or where.

    An API server takes the change, and the controller reads a finished job no more.
    """
    finished = d.key.group_kind in _PULLS and get(live, "status", "completionTime")
    if not finished or annotation(live, DIGEST) == d.digest:
        return None
    changed = dict.fromkeys(c.path[:2] for c in owned_differences(d.obj, live, None))
    problems = [
        Problem(path, "FieldValueInvalid", _COMPLETE) for path in changed if path in _PULLED
    ]
    return invalid_object(d.key.kind, d.key.group, d.key.name, problems) if problems else None


def replaceable(d: Desired, unit: Unit) -> bool:
    """Return whether the object is to be deleted and created again instead of staying as it is."""
    wished = unit.spec.apply.replace == "onImmutable" or replace_asked(d.obj) or bool(d.hook)
    return wished and d.key.group_kind not in JUDGED_HERE and not holds_data(d.key, d.obj)


def _rule(message: str) -> str:
    """Return the rule at the end of a message, without the value before it or a diff after it."""
    message, _, _ = message.partition("\n")
    return message.rpartition(": ")[2][:300] if message.startswith(_VALUE) else message[:300]


def _fixed(d: Desired, error: ApiError, live: Obj | None) -> dict[str, FieldPath]:
    """Return the fields that cannot change: of a rule about all of the spec those that do."""
    found: dict[str, FieldPath] = {}
    for cause in error.details.causes:
        free = _FREE.findall(cause.message) if cause.field == "spec" and live is not None else ()
        changed = (c.path[:2] for c in owned_differences(d.obj, live or {}, None))
        fixed = [path for path in changed if path[0] == "spec" and path[-1] not in free]
        if free and fixed:
            found |= {".".join(map(str, path)): path for path in fixed}
        else:
            field = _FROM.get(cause.field, cause.field)
            field = field if get(d.obj, *parse_field(field)) is not None else cause.field
            found[field] = parse_field(field)
    return found


def cannot_change(d: Desired, error: ApiError, live: Obj | None = None) -> Finding:
    """Return the finding for a change of the `live` object that needs a new one."""
    fields = _fixed(d, error, live)
    never = bool(holds_data(d.key, d.obj))
    return Finding(
        code="GK2203",
        message=f"{', '.join([*fields][:5])} of {d.key} cannot change after creation",
        places=(d.document.place(next(iter(fields.values()))),),
        notes=(
            ("why", _rule(unquoted(error, d).details.causes[0].message)),
            ("unchanged", f"the live {d.key}"),
            (
                "next",
                "put the old value back, or create a second object and move what this one holds"
                if never
                else "put the old value back, or let it be deleted and created again: "
                "gitkruise.io/replace: Enabled on the object, or apply.replace: onImmutable",
            ),
        ),
        object=str(d.key),
    )


def not_served(d: Desired, catalog: Catalog, *, sent: bool = False) -> Finding:
    """Return GK4201 for an object whose kind the cluster does not know.

    `sent`: the rest of its commit is applied.
    """
    other = served_as(d, catalog)
    found = f"it serves {other.kind} ({other.api_version})" if other else _ABSENT
    next_ = instead_of_kind(d.key.group_kind)
    if other and not next_ and d.key.group != OWN_GROUP:
        next_ = written(other)
    if not other and d.key.group not in {OWN_GROUP, *KRUISE_GROUPS}:
        found = _ABSENT_OR_AWAY
    return _unknown(d, found, next_ or _bring(d, _INSTALL), sent=sent)


def served_no_more(d: Desired) -> Finding:
    """Return GK4201 for an object whose kind the cluster served until a moment ago."""
    next_ = _bring(d, "install the CRD again, or take the object out of git")
    return _unknown(d, "its CRD or API server is gone", next_, sent=True)


def _bring(d: Desired, otherwise: str) -> str:
    """Return what brings the kind of an object to a cluster."""
    if d.key.group == OWN_GROUP or (d.key.group in KRUISE_GROUPS and d.key.kind in DRIVEN):
        return "gitkruise install --crds"
    if d.key.group in KRUISE_GROUPS:
        return "install OpenKruise, or take the object out of git: gitkruise has no such controller"
    return otherwise


def _unknown(d: Desired, found: str, next_: str, *, sent: bool) -> Finding:
    unchanged = "nothing of this commit is applied while one of its kinds is unknown"
    if sent:
        unchanged = "nothing of that kind is written; it is tried again"
    return Finding(
        code="GK4201",
        message=f"this cluster does not know kind {d.key.kind} ({d.obj['apiVersion']}): {found}",
        places=(d.document.place(("kind",)),),
        notes=(("unchanged", unchanged), ("next", next_)),
        object=str(d.key),
    )


def _unconverted(d: Desired, why: str, live: Obj | None) -> Finding:
    """Return GK5101: the webhook that converts the versions of a kind cannot be called."""
    return Finding(
        code="GK5101",
        message=f"the API server cannot convert {d.key}: its conversion webhook fails",
        places=(d.document.place(("kind",)),),
        notes=(
            ("it says", why),
            ("effect", f"no {d.key.kind} can be read or written in a version that is not stored"),
            ("unchanged", f"{_kept(d, live)}; it is tried again"),
            ("next", look_at(d.key.group)),
        ),
        object=str(d.key),
    )


def _uncalled(d: Desired, name: str, why: str, live: Obj | None) -> Finding:
    """Return GK5101: an admission webhook that must agree cannot be called."""
    distrusted = "x509" in why or "certificate" in why
    message = (
        f"the API server refuses the certificate of webhook {name}"
        if distrusted
        else f"the API server cannot call webhook {name}"
    )
    return Finding(
        code="GK5101",
        message=message,
        places=(d.document.place(("kind",)),),
        notes=(
            ("it says", why),
            ("effect", "nothing that the webhook is asked about can be written (failurePolicy)"),
            ("unchanged", f"{_kept(d, live)}; it is tried again"),
            *_what_serves(name),
        ),
        object=str(d.key),
    )


def _what_serves(webhook: str) -> tuple[tuple[str, str], ...]:
    if not webhook.endswith(WEBHOOK_SUFFIX):
        found = f"kubectl get {_REGISTERED} -o yaml | grep -A9 {webhook}"
        return (("next", f"see what serves it: {found}"),)
    return (
        ("next", "start what serves it again: gitkruise webhook, or its pods in the cluster"),
        ("or", "gitkruise webhook --withdraw removes its registration"),
    )


def _kept(d: Desired, live: Obj | None) -> str:
    return f"the live {d.key}" if live is not None else f"the cluster, which has no {d.key}"


def unanswered(d: Desired, why: str, live: Obj | None) -> Finding:
    """Return GK4102: a write that did not come about and is tried again."""
    return Finding(
        code="GK4102",
        message=f"{d.key}: {why}",
        notes=(
            ("unchanged", f"{_kept(d, live)}; it is tried again"),
            ("next", "gitkruise doctor cluster, if it goes on"),
        ),
        object=str(d.key),
    )


def refusal(d: Desired, error: ApiError, account: str = "", *, live: Obj | None = None) -> Finding:
    """Return the API server's rejection of one object, at the line that caused it if known.

    `account` is the service account of the request, if it was not our own; `live` is the object in
    the cluster, if it is there.
    """
    webhook = _CALLED.search(error.message)
    if webhook is not None:
        return _uncalled(d, webhook[1], webhook[2], live)
    if why := unconverted(error.message):
        return _unconverted(d, why, live)
    words, error = error.message, unquoted(error, d)
    if error.retry is not Retry.NEVER and not isinstance(error, Untyped):
        # Conflict among them: no word against the object
        return unanswered(d, error.message, live)
    if isinstance(error, Forbidden) and not _BY_ADMISSION.search(words):
        return Finding(
            code="GK4301",
            message=f"not allowed: {error.message}",
            places=(d.document.place(("kind",)),),
            notes=_of_forbidden(d, error, account, live),
            object=str(d.key),
        )
    if isinstance(error, NotFound) and not _BY_ADMISSION.search(words):
        return _not_found(d, error)
    once = d.key.group_kind == RECREATE and "immutable" in error.message
    return Finding(
        code="GK2102",
        message=error.message,
        places=(d.document.place(parse_field(refused_field(error))),),
        notes=(
            ("why", "the cluster refuses it"),
            ("unchanged", _kept(d, live)),
            *([("next", "a request is carried out once: give the new one another name")] * once),
        ),
        object=str(d.key),
    )


def warned(d: Desired, texts: Sequence[str]) -> tuple[Finding, ...]:
    """Return the API server's warnings of an object that it accepted, at the fields they name."""
    return tuple(
        Finding(
            code="GK2406",
            message=f"{d.key}: " + (_MAY_QUOTE if d.secret else text),
            places=(d.document.place(() if d.secret else parse_field(text.partition(": ")[0])),),
            notes=(("why", "the API server accepts it, with this warning"),),
            object=str(d.key),
            severity=Severity.WARNING,
        )
        for text in dict.fromkeys(texts)
    )


def _not_found(d: Desired, error: NotFound) -> Finding:
    """Return GK4202: a namespace does not exist, or the role of a binding."""
    role = d.obj.get("roleRef")
    if isinstance(role, Mapping) and f'"{role.get("name")}" not found' in error.message:
        named = f"{role.get('kind')} {role['name']}"
        return Finding(
            code="GK4202",
            message=f"{d.key}: {named} does not exist",
            places=(d.document.place(("roleRef", "name")),),
            notes=(
                ("why", "without the verb bind an account binds only roles that exist"),
                ("next", f"add {named} to git"),
            ),
            object=str(d.key),
        )
    return Finding(
        code="GK4202",
        message=f"{d.key}: {error.message}",
        places=(d.document.place(("metadata", "namespace")),),
        notes=(("next", _NAMESPACE),),
        object=str(d.key),
    )


def _of_forbidden(
    d: Desired, error: Forbidden, account: str, live: Obj | None
) -> tuple[tuple[str, str], ...]:
    """Return the notes on a rejection of any such write by this account, or by all accounts."""
    unchanged = ("unchanged", f"{_kept(d, live)}; other units go on")
    namespace = d.key.namespace
    if any(cause.reason == "NamespaceTerminating" for cause in error.details.causes):
        next_ = f"kubectl describe namespace {namespace}   shows what its deletion waits for"
        return unchanged, ("next", next_)
    if _QUOTA in error.message:
        next_ = f"kubectl describe resourcequota -n {namespace}   shows what is used"
        return unchanged, ("next", next_)
    if _ESCALATION in error.message:
        verb = "bind" if "roleRef" in d.obj else "escalate"
        holder = f"service account {account}" if account else "the account of gitkruise"
        needed = f"every right that {d.key} grants, or verb {verb} on the role"
        next_ = f"give {holder} these rights, by a Role and a RoleBinding"
        return ("needed", needed), unchanged, ("next", next_)
    next_ = "gitkruise doctor rbac --print-fix   prints what is missing"
    if account:
        next_ = f"give service account {account} that right, by a Role and a RoleBinding"
    needed = f"verb patch on {d.key.group_kind}{_inside(d.key)}, to apply {d.key}"
    return ("needed", needed), unchanged, ("next", next_)


def _inside(key: ObjectKey) -> str:
    return f" in namespace {key.namespace}" if key.namespace else ""

"""The labels and annotations gitkruise writes on what it applies, and those it obeys."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from gitkruise.model.change import Desired
from gitkruise.wire.gojson import compact
from gitkruise.wire.names import Obj
from gitkruise.wire.paths import drop, get, put
from gitkruise.wire.times import parse_time

UNIT: Final = "gitkruise.io/unit"  # label: watch and prune selector
UNIT_REF: Final = "gitkruise.io/unit-ref"
COMMIT: Final = "gitkruise.io/commit"
PATH: Final = "gitkruise.io/path"
DIGEST: Final = "gitkruise.io/digest"
ROLLOUT: Final = "gitkruise.io/rollout"
PLAN: Final = "gitkruise.io/plan"  # on a hook: what it ran for
APPROVE: Final = "gitkruise.io/approve"  # on a Unit's document: the hash of a deletion
ACCEPT_REWRITE: Final = "gitkruise.io/accept-rewrite"  # on a GitSource: the commit it led to
CONSENTS: Final = (APPROVE, ACCEPT_REWRITE)  # what people agree to, beside the spec
# On a Unit or GitSource: look again, please. Any new text is a new wish.
_RECONCILE_AT: Final = ("gitkruise.io/reconcile-at", "reconcile.fluxcd.io/requestedAt")
OURS: Final = frozenset({UNIT_REF, COMMIT, PATH, DIGEST, ROLLOUT, PLAN})

HOLD: Final = "gitkruise.io/hold"  # until when the object is left alone, and why
HEALTH: Final = "gitkruise.io/health"  # Ignore, or when the object is well, in CEL

MANAGER: Final = "gitkruise"
STATUS_MANAGER: Final = "gitkruise-status"

# What users of other tools may already have on their objects; a trial needs zero edits.
_KEEP: Final[Mapping[str, tuple[str, ...]]] = {
    "gitkruise.io/prune": ("Disabled",),
    "kustomize.toolkit.fluxcd.io/prune": ("Disabled", "disabled"),
    "client.lifecycle.config.k8s.io/deletion": ("detach",),
}
_CONFIRM: Final = ("gitkruise.io/prune", "Confirm")
_ARGO_OPTIONS: Final = "argocd.argoproj.io/sync-options"
_UNTOUCHED: Final[Mapping[str, tuple[str, ...]]] = {
    "gitkruise.io/reconcile": ("Disabled",),
    "kustomize.toolkit.fluxcd.io/reconcile": ("disabled", "Disabled"),
    "argocd.argoproj.io/skip-reconcile": ("true",),
    "configmanagement.gke.io/managed": ("disabled",),
    "argocd.argoproj.io/hook": ("Skip",),
}
REPLACED: Final = {"gitkruise.io/replace": "Enabled"}
_REPLACED: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (word,) for name, word in REPLACED.items()},
    "kustomize.toolkit.fluxcd.io/force": ("Enabled", "enabled"),
}
_HEALTH_IGNORED: Final[Mapping[str, tuple[str, ...]]] = {
    HEALTH: ("Ignore",),
    "argocd.argoproj.io/ignore-healthcheck": ("true",),
}
APPLY_WORDS: Final = ("gitkruise.io/apply", "kustomize.toolkit.fluxcd.io/ssa")
_WORDS: Final = frozenset({"override", "merge", "ifnotpresent", "ignore"})
_PROTECTION_LABEL: Final = "policy.kruise.io/delete-protection"


def wish_to_look(obj: Obj) -> str:
    """What somebody wrote to have an object looked at now; "" for nothing."""
    return next(filter(None, (annotation(obj, name) for name in _RECONCILE_AT)), "")


def unit_label(cluster: str, unit: str) -> str:
    """The value of the unit label: 12 hex digits, the same for the same unit of a cluster."""
    return hashlib.sha256(f"{cluster}/{unit}".encode()).hexdigest()[:12]


def digest_of(obj: Obj) -> str:
    """Digest of an object as git wants it; key order and layout do not matter."""
    return "sha256:" + hashlib.sha256(compact(obj)).hexdigest()[:32]


def marked(desired: Desired, *, unit: str, label: str, commit: str, path: str) -> Obj:
    """The body that is applied: what git wants plus our marks."""
    annotations = {
        **get(desired.obj, "metadata", "annotations", default={}),
        UNIT_REF: unit,
        COMMIT: commit,
        PATH: path,
        DIGEST: desired.digest,
        **({PLAN: desired.plan} if desired.plan else {}),
    }
    labels = {**get(desired.obj, "metadata", "labels", default={}), UNIT: label}
    with_labels: Obj = put(desired.obj, ("metadata", "labels"), labels)
    applied: Obj = put(with_labels, ("metadata", "annotations"), annotations)
    return applied


def bare(obj: Obj) -> Obj:
    """A live object without our marks; empty maps they leave go too."""
    for where, ours in (("labels", {UNIT}), ("annotations", OURS)):
        there = get(obj, "metadata", where, default={})
        left = {name: value for name, value in there.items() if name not in ours}
        path = ("metadata", where)
        obj = put(obj, path, left) if left else drop(obj, path)
    return obj


def annotation(obj: Obj, name: str) -> str:
    value: str = (obj["metadata"].get("annotations") or {}).get(name, "")
    return value


def untouched(obj: Obj) -> bool:
    """Whether somebody asked that this object be left alone."""
    notes = obj["metadata"].get("annotations")
    if not notes:
        return False
    for name, values in _UNTOUCHED.items():
        if name in notes and notes[name] in values:
            return True
    return _word(notes) == "ignore"


def hold_of(obj: Obj) -> tuple[datetime, str] | None:
    """(until when the object is left alone, why) by `2026-11-21T20:00:00Z the fire at Dana's`.

    None when nobody asked for it. Raises ValueError when it does not begin with a time.
    """
    text = annotation(obj, HOLD)
    if not text:
        return None
    instant, _, why = text.strip().partition(" ")
    until = parse_time(instant)
    assert until is not None, "a text that is not empty is a time or no time"
    return until, why.strip()


def health_ignored(obj: Obj) -> bool:
    """Whether nobody is to wait for this object to be well."""
    notes = obj["metadata"].get("annotations")
    return bool(notes) and any(notes.get(n) in values for n, values in _HEALTH_IGNORED.items())


def health_words(obj: Obj) -> str:
    """When the object is well, in its author's CEL; "" when it does not say."""
    text = annotation(obj, HEALTH)
    return "" if text in _HEALTH_IGNORED[HEALTH] else text


def replace_asked(obj: Obj) -> bool:
    """Whether the object may be deleted and made again when it cannot change."""
    notes = obj["metadata"].get("annotations") or {}
    if any(notes.get(name) in values for name, values in _REPLACED.items()):
        return True
    return "Replace=true" in notes.get(_ARGO_OPTIONS, "").replace(" ", "").split(",")


def apply_word(obj: Obj) -> str:
    """How the object asks to be applied, in small letters; "" when it does not say.

    Override and Merge are one: fields that git does not name are kept (server-side apply), and
    whose fields git takes is for `apply.conflicts` to say. Raises ValueError for other words.
    """
    word = _word(obj["metadata"].get("annotations") or {})
    if word and word not in _WORDS:
        raise ValueError(word)
    return word


def create_only(obj: Obj) -> bool:
    """Whether the object is made where there is none, and never changed."""
    notes = obj["metadata"].get("annotations")
    return bool(notes) and _word(notes) == "ifnotpresent"


def _word(notes: Mapping[str, str]) -> str:
    return next((notes[name].lower() for name in APPLY_WORDS if name in notes), "")


def kept(obj: Obj) -> str:
    """Why a live object must not be pruned; "" when nothing forbids it."""
    for name, values in _KEEP.items():
        if annotation(obj, name) in values:
            return f"annotation {name}: {annotation(obj, name)}"
    if {"Prune=false", "Delete=false"} & _argo_options(obj):
        return f"annotation {_ARGO_OPTIONS}"
    protection = get(obj, "metadata", "labels", _PROTECTION_LABEL, default="")
    return f"label {_PROTECTION_LABEL}: {protection}" if protection else ""


def wants_consent(obj: Obj) -> str:
    """Why a live object is pruned only when a person agrees; "" when it need not be asked."""
    name, value = _CONFIRM
    if annotation(obj, name) == value:
        return f"annotation {name}: {value}"
    if {"Prune=confirm", "Delete=confirm"} & _argo_options(obj):
        return f"annotation {_ARGO_OPTIONS}"
    return ""


def _argo_options(obj: Obj) -> set[str]:
    return set(annotation(obj, _ARGO_OPTIONS).replace(" ", "").split(","))

"""The labels and annotations gitkruise writes on what it applies, and those it obeys."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gitkruise.model.gitops.change import MISSING, FieldChange
from gitkruise.model.gitops.document import Desired
from gitkruise.model.workloads.conditions import STALLED_NOTE
from gitkruise.printable import shown
from gitkruise.wire.primitives.gojson import compact
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import drop, get, put
from gitkruise.wire.primitives.times import parse_time

UNIT: Final = "gitkruise.io/unit"  # label: watch and prune selector
UNIT_REF: Final = "gitkruise.io/unit-ref"
COMMIT: Final = "gitkruise.io/commit"
PATH: Final = "gitkruise.io/path"
DIGEST: Final = "gitkruise.io/digest"
ARTIFACT: Final = "gitkruise.io/artifact"  # that the commit was imported from
ROLLOUT: Final = "gitkruise.io/rollout"
PLAN: Final = "gitkruise.io/plan"  # on a hook: what it ran for
APPROVE: Final = "gitkruise.io/approve"  # on a Unit's document: the hash of a deletion
ACCEPT_REWRITE: Final = "gitkruise.io/accept-rewrite"  # on a GitSource: the commit it led to
CONSENTS: Final = (APPROVE, ACCEPT_REWRITE)  # approvals of people, outside the spec
# On a Unit or GitSource: reconcile now. Any new value is a new request.
RECONCILE_AT: Final = "gitkruise.io/reconcile-at"
_RECONCILE_AT: Final = (RECONCILE_AT, "reconcile.fluxcd.io/requestedAt")
SIGNED: Final = (UNIT_REF, COMMIT, PATH, DIGEST)  # with each object that is applied
_APPLIED: Final = (*SIGNED, ARTIFACT, PLAN)
OURS: Final = frozenset({*_APPLIED, ROLLOUT, STALLED_NOTE})

HOLD: Final = "gitkruise.io/hold"  # until when the object is left alone, and why
LEFT_ALONE: Final = "left alone"  # so the message of an object's record begins, or ends
_LEFT_ALONE: Final = re.compile(rf"(?:^|; )({LEFT_ALONE}(?:: annotation | until \d).*)$")
HEALTH: Final = "gitkruise.io/health"  # Ignore, or when the object is well, in CEL

IGNORE: Final = "gitkruise.io/ignore"  # JSON pointers, apart by spaces or commas

_HOLD_MAX: Final = 80

MANAGER: Final = "gitkruise"
STATUS_MANAGER: Final = "gitkruise-status"

# What users of other tools may already have on their objects; a trial needs zero edits.
_KEEP: Final[Mapping[str, tuple[str, ...]]] = {
    "gitkruise.io/prune": ("disabled",),
    "kustomize.toolkit.fluxcd.io/prune": ("Disabled", "disabled"),
    "client.lifecycle.config.k8s.io/deletion": ("detach",),
    "helm.sh/resource-policy": ("keep",),
}
_CONFIRM: Final = ("gitkruise.io/prune", ("confirm",))
_ARGO_OPTIONS: Final = "argocd.argoproj.io/sync-options"
_UNTOUCHED: Final[Mapping[str, tuple[str, ...]]] = {
    "gitkruise.io/reconcile": ("disabled",),
    "kustomize.toolkit.fluxcd.io/reconcile": ("disabled", "Disabled"),
    "argocd.argoproj.io/skip-reconcile": ("true",),
    "configmanagement.gke.io/managed": ("disabled",),
    "argocd.argoproj.io/hook": ("Skip",),
}
REPLACED: Final = {"gitkruise.io/replace": "Enabled"}
_REPLACED: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (word.lower(),) for name, word in REPLACED.items()},
    "kustomize.toolkit.fluxcd.io/force": ("Enabled", "enabled"),
}
_HEALTH_IGNORED: Final[Mapping[str, tuple[str, ...]]] = {
    HEALTH: ("ignore",),
    "argocd.argoproj.io/ignore-healthcheck": ("true",),
}
APPLY_WORDS: Final = ("gitkruise.io/apply", "kustomize.toolkit.fluxcd.io/ssa")
_WORDS: Final = frozenset({"override", "merge", "ifnotpresent", "ignore"})
# What our own switches may say, in any case; the last word is the default.
SWITCHES: Final[Mapping[str, tuple[str, ...]]] = {
    "gitkruise.io/prune": ("Disabled", "Confirm", "Enabled"),
    "gitkruise.io/reconcile": ("Disabled", "Enabled"),
    "gitkruise.io/replace": ("Enabled", "Disabled"),
    "gitkruise.io/substitute": ("Disabled", "Enabled"),
}
_PROTECTION_LABEL: Final = "policy.kruise.io/delete-protection"


def reconcile_request(obj: Obj) -> str:
    """The annotation value that requests a reconcile now; "" for none."""
    return next(filter(None, (annotation(obj, name) for name in _RECONCILE_AT)), "")


def unit_label(cluster: str, unit: str) -> str:
    """The value of the unit label: 12 hex digits, the same for the same unit of a cluster."""
    return hashlib.sha256(f"{cluster}/{unit}".encode()).hexdigest()[:12]


def digest_of(obj: Obj) -> str:
    """Digest of an object as git wants it; key order and layout do not matter."""
    return "sha256:" + hashlib.sha256(compact(obj)).hexdigest()[:32]


def marked(
    desired: Desired, *, unit: str, label: str, commit: str, path: str, artifact: str = ""
) -> Obj:
    """The body that is applied: what git wants plus our marks."""
    annotations = {
        **get(desired.obj, "metadata", "annotations", default={}),
        UNIT_REF: unit,
        COMMIT: commit,
        PATH: path,
        DIGEST: desired.digest,
        **({ARTIFACT: artifact} if artifact else {}),
        **({PLAN: desired.plan} if desired.plan else {}),
    }
    labels = {**get(desired.obj, "metadata", "labels", default={}), UNIT: label}
    with_labels: Obj = put(desired.obj, ("metadata", "labels"), labels)
    applied: Obj = put(with_labels, ("metadata", "annotations"), annotations)
    return applied


@dataclass(frozen=True, slots=True)
class Marks:
    """Our label and annotations on one live object, as an apply wrote them."""

    uid: str
    label: str
    notes: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """The digest that it was applied with; "" without one."""
        return self.note(DIGEST)

    def note(self, name: str) -> str:
        """Return the value of one of the annotations, "" without it."""
        return dict(self.notes).get(name, "")

    @classmethod
    def of(cls, live: Obj) -> Marks:
        """Return those of a live object."""
        meta = live["metadata"]
        found = meta.get("annotations") or {}
        notes = tuple((name, found[name]) for name in _APPLIED if name in found)
        return cls(meta.get("uid", ""), (meta.get("labels") or {}).get(UNIT, ""), notes)

    def over(self, live: Marks) -> tuple[FieldChange, ...]:
        """Return what brings these back over those of a live object."""
        ours: dict[str, Any] = dict(self.notes)
        theirs: dict[str, Any] = dict(live.notes)
        label: Any = live.label or MISSING
        pairs = [(("labels", UNIT), label, self.label)]
        pairs += [
            (("annotations", name), theirs.get(name, MISSING), ours.get(name, MISSING))
            for name in _APPLIED
        ]
        return tuple(
            FieldChange(path=("metadata", *path), before=before, after=after)
            for path, before, after in pairs
            if before != after
        )

    def on(self, live: Obj) -> Obj:
        """Return a live object with these marks instead of its own."""
        meta = live["metadata"]
        others = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in _APPLIED}
        labels = {**(meta.get("labels") or {}), UNIT: self.label}
        annotations = {**others, **dict(self.notes)}
        return {**live, "metadata": {**meta, "labels": labels, "annotations": annotations}}


def bare(obj: Obj) -> Obj:
    """An object, live or in git, without our marks; empty maps they leave go too."""
    for where, ours in (("labels", frozenset({UNIT})), ("annotations", OURS)):
        there = get(obj, "metadata", where)
        if isinstance(there, Mapping) and not ours.isdisjoint(there):
            left = {name: value for name, value in there.items() if name not in ours}
            path = ("metadata", where)
            obj = put(obj, path, left) if left else drop(obj, path)
    return obj


def pointers(note: str) -> list[str]:
    """Return the entries of the annotation `gitkruise.io/ignore`."""
    return note.replace(",", " ").split()


def annotation(obj: Obj, name: str) -> str:
    value: str = (obj["metadata"].get("annotations") or {}).get(name, "")
    return value


def _says(notes: Mapping[str, str], name: str, words: Collection[str]) -> bool:
    """Return whether an annotation has one of `words`, which are in lower case for our own."""
    value = notes.get(name, "")
    return (value.lower() if name in SWITCHES or name == HEALTH else value) in words


def untouched(obj: Obj) -> str:
    """The annotation by which the object opted out of changes; "" when it did not."""
    notes = obj["metadata"].get("annotations")
    if not notes:
        return ""
    for name, values in _UNTOUCHED.items():
        if name in notes and _says(notes, name, values):
            return f"annotation {name}: {notes[name]}"
    return _apply_note(notes) if _word(notes) == "ignore" else ""


def opted_out(wanted: Obj, live: Obj | None) -> str:
    """The annotation, in git or on the live object, by which a sync leaves it as it is; "" for
    none."""
    why = untouched(wanted)
    if why or live is None:
        return why
    if create_only(wanted):
        return _apply_note(wanted["metadata"]["annotations"])
    return untouched(live)


def hold_of(obj: Obj) -> tuple[datetime, str] | None:
    """(end, reason) of the object's hold, from `2026-11-21T20:00:00Z the fire at Dana's`.

    None without the annotation. Raises ValueError when it does not begin with a time.
    """
    text = annotation(obj, HOLD)
    if not text:
        return None
    instant, _, why = text.strip().partition(" ")
    try:
        until = parse_time(instant)
    except ValueError:
        until = None
    if until is None:
        raise ValueError(f"annotation {HOLD} does not begin with a time")
    return until, why.strip()


def lasting_hold(obj: Obj, now: datetime) -> str:
    """Return the annotation that holds an object at `now`; "" without one. An invalid one holds
    nothing."""
    with suppress(ValueError):
        hold = hold_of(obj)
        if hold is not None and hold[0] > now:
            return f"annotation {HOLD}: {shown(annotation(obj, HOLD), _HOLD_MAX)}"
    return ""


def left_alone(message: str) -> str:
    """Return the part of the message of an object's record that says why a sync leaves it as it
    is; "" without one."""
    found = _LEFT_ALONE.search(message)
    return found[1] if found else ""


def health_ignored(obj: Obj) -> bool:
    """Return whether waves and waits skip the health of this object."""
    notes = obj["metadata"].get("annotations")
    if not notes:
        return False
    return any(_says(notes, name, values) for name, values in _HEALTH_IGNORED.items())


def health_words(obj: Obj) -> str:
    """The author's CEL expression for the object's health; "" without one."""
    text = annotation(obj, HEALTH)
    return "" if text.lower() in _HEALTH_IGNORED[HEALTH] else text


def replace_asked(obj: Obj) -> bool:
    """Return whether the object may be deleted and created again when a field is immutable."""
    notes = obj["metadata"].get("annotations") or {}
    if any(_says(notes, name, values) for name, values in _REPLACED.items()):
        return True
    return "Replace=true" in notes.get(_ARGO_OPTIONS, "").replace(" ", "").split(",")


def apply_word(obj: Obj) -> str:
    """The object's apply mode, in lower case; "" without the annotation.

    Override and Merge are one: fields that git does not name are kept (server-side apply), and
    whose fields git takes is for `apply.conflicts` to say. Raises ValueError for other words.
    """
    word = _word(obj["metadata"].get("annotations") or {})
    if word and word not in _WORDS:
        raise ValueError(word)
    return word


def create_only(obj: Obj) -> bool:
    """Return whether the object is created if missing, and never changed."""
    notes = obj["metadata"].get("annotations")
    return bool(notes) and _word(notes) == "ifnotpresent"


def _apply_note(notes: Mapping[str, str]) -> str:
    name = next(name for name in APPLY_WORDS if name in notes)
    return f"annotation {name}: {notes[name]}"


def _word(notes: Mapping[str, str]) -> str:
    return next((notes[name].lower() for name in APPLY_WORDS if name in notes), "")


def kept(obj: Obj) -> str:
    """Reason why a live object must not be pruned; "" when nothing forbids it.

    Deletion is a change, too: in Flux an object with `reconcile: disabled` is not pruned either.
    """
    if why := untouched(obj):
        return why
    notes = obj["metadata"].get("annotations") or {}
    for name, values in _KEEP.items():
        if _says(notes, name, values):
            return f"annotation {name}: {notes[name]}"
    if {"Prune=false", "Delete=false"} & _argo_options(obj):
        return f"annotation {_ARGO_OPTIONS}"
    protection = get(obj, "metadata", "labels", _PROTECTION_LABEL, default="")
    return f"label {_PROTECTION_LABEL}: {protection}" if protection else ""


def wants_approval(obj: Obj) -> str:
    """Reason why pruning a live object needs approval; "" when it needs none."""
    name, values = _CONFIRM
    if _says(obj["metadata"].get("annotations") or {}, name, values):
        return f"annotation {name}: {annotation(obj, name)}"
    if {"Prune=confirm", "Delete=confirm"} & _argo_options(obj):
        return f"annotation {_ARGO_OPTIONS}"
    return ""


def _argo_options(obj: Obj) -> set[str]:
    return set(annotation(obj, _ARGO_OPTIONS).replace(" ", "").split(","))

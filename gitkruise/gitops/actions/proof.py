"""Proof of an action before it is committed: its preview reaches one object, and ends as asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import ActionTarget, ActionVerb, FileEdit
from gitkruise.gitops.actions.image_update import ImageUpdate
from gitkruise.gitops.actions.rollback import template_paths, templates
from gitkruise.gitops.preview.changes import changes_between
from gitkruise.gitops.preview.preview import Preview
from gitkruise.model.gitops.change import ChangeKind, FieldChange, ObjectChange
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import Desired, FieldPath
from gitkruise.model.planning.canary import CANARIES
from gitkruise.model.planning.forecast import STUCK, RolloutForecast
from gitkruise.model.planning.plan import Hold
from gitkruise.model.workloads.labels import DEPLOYMENT
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import ObjectKey, named
from gitkruise.wire.primitives.paths import drop, get, put

_STAGES_MAX: Final = 3  # of the past, played before an offline preview


def earlier_stages(
    repository: Repository, target: ActionTarget, objects: Sequence[Desired]
) -> tuple[tuple[Desired, ...], ...]:
    """Return `objects` under each earlier template of the object, oldest first.

    A preview without a cluster takes each of these rollouts as complete.
    """
    file = target.desired.document.file
    pasts = templates(repository, target.commit, target.key, file, target.kustomized)
    found = list(islice(pasts, _STAGES_MAX))[1:]
    return tuple(
        tuple(_as_it_was(d, past.document.obj) if d.key == target.key else d for d in objects)
        for past in reversed(found)
    )


def _as_it_was(desired: Desired, old: Any) -> Desired:
    """The object of today with the template and the strategy it had."""
    obj = desired.obj
    strategy = (("spec", "strategy"), ("spec", "paused"), *sorted(CANARIES))
    deployment = desired.key.group_kind == DEPLOYMENT
    paths = strategy if deployment else (("spec", "updateStrategy"),)
    for path in (*template_paths(desired.key), *paths):
        was = get(old, *path)
        obj = put(obj, path, was) if was is not None else drop(obj, path)
    return replace(desired, obj=obj)


def check_reach(
    edit: FileEdit,
    target: ActionTarget,
    before: Sequence[Desired],
    after: Sequence[Desired],
    catalog: Catalog,
) -> None:
    """Raises UsageProblem GK7044 when the commit changes other objects, or not this one's fields.

    That happens where units share a base, or where a patch sets the field again. Git alone decides:
    the cluster may have the value already.
    """
    changes = changes_between(before, after, catalog)
    check_reached(edit.file, {target.key: edit.fields}, target.unit, changes)


def check_reached(
    file: str,
    wanted: Mapping[ObjectKey, Sequence[FieldChange]],
    unit: Unit,
    changes: Sequence[ObjectChange],
) -> None:
    """Raises UsageProblem GK7044 when a commit changes other objects than those `wanted`, or not
    their fields. `file` is one of those that it edits."""
    changed = {c.key: c for c in changes if c.kind is not ChangeKind.UNCHANGED and not c.drift}
    others = sorted(str(key) for key in changed.keys() - wanted.keys())
    missed = [_missed(changed.get(key), fields) for key, fields in wanted.items()]
    lost = next(((key, path) for key, path in zip(wanted, missed, strict=True) if path), None)
    if not others and lost is None:
        return
    if others:
        message = f"this edit of {file} would change other objects, too"
        notes = (("others", ", ".join(others[:8])),)
    else:
        assert lost is not None
        dotted = ".".join(str(part) for part in lost[1])
        message = f"this edit of {file} does not reach {lost[0]}"
        notes = (("why", f"{dotted} is set again by a patch of unit {unit.id}"),)
    next_ = f"set the field in a patch below {unit.spec.path} by hand"
    unchanged = ("unchanged", "nothing was committed or pushed")
    raise UsageProblem(
        Finding(code="GK7044", message=message, notes=(*notes, unchanged, ("next", next_)))
    )


def _missed(change: ObjectChange | None, fields: Sequence[FieldChange]) -> FieldPath:
    """Return the first field that does not change as it should; () for none."""
    got = {(c.path, str(c.after)) for c in change.fields} if change else set()
    if change is not None and change.kind is ChangeKind.CREATE:
        return ()  # not there yet: it comes as git says
    return next((c.path for c in fields if (c.path, str(c.after)) not in got), ())


def check_images(update: ImageUpdate, preview: Preview) -> None:
    """Raises UsageProblem GK7043 when a rollout of new images, played ahead, gets stuck."""
    found = preview.forecast.rollouts if preview.forecast else ()
    stuck = next((p for p in found if p.key in update.fields and p.hold == STUCK), None)
    wrong = next((f for f in preview.unplayed if f.is_error), None)
    if stuck is None and wrong is None:
        return
    if stuck is not None:
        what, why = str(stuck.key), stuck.message or "pods do not become available"
    else:
        assert wrong is not None
        what, why = f"unit {update.unit.id}", wrong.message
    notes = (
        ("played ahead", why),
        ("unchanged", "nothing was committed or pushed"),
        ("next", "gitkruise images --update --force commits it all the same"),
    )
    message = f"{what}: the rollout of {update.subject} would not end"
    raise UsageProblem(Finding(code="GK7043", message=message, notes=notes))


def check_outcome(edit: FileEdit, target: ActionTarget, preview: Preview) -> None:
    """Raises UsageProblem GK7043 when the rollout, played ahead, does not end as asked."""
    found = preview.forecast.rollouts if preview.forecast else ()
    prediction = next((p for p in found if p.key == target.key), None)
    why = _shortfall(edit, prediction) if prediction else ""
    if target.key in preview.withheld:
        why = "a sync leaves it as it is"
    wrong = [f for f in preview.unplayed if f.is_error]
    if wrong:
        _check_canary(target, wrong)
        why = wrong[0].message
    if not why:
        return
    # A rollback is what `why` advises: to lead back there would lead nowhere.
    back = (
        f"gitkruise rollback {named(target.key)} --to COMMIT, with one that gitkruise history lists"
    )
    next_ = back if edit.verb is ActionVerb.ROLLBACK else f"gitkruise why {named(target.key)}"
    notes = (
        ("played ahead", why),
        ("unchanged", "nothing was committed or pushed"),
        ("next", f"{next_}; --force commits it all the same"),
    )
    message = f"{target.key}: {edit.words} would not end as asked"
    raise UsageProblem(Finding(code="GK7043", message=message, notes=notes))


def _check_canary(target: ActionTarget, wrong: Sequence[Finding]) -> None:
    """Raise GK2404 for a cluster that would not pause the object at its canary."""
    for found in wrong:
        if (found.code, found.object) == ("GK2404", str(target.key)):
            notes = [note for note in found.notes if note[0] != "unchanged"]
            unchanged = ("unchanged", "nothing was committed or pushed")
            raise UsageProblem(replace(found, notes=(*notes, unchanged)))


def _shortfall(edit: FileEdit, p: RolloutForecast) -> str:
    out = p.sidecars.left_out if p.sidecars else 0  # a selector leaves them to others
    asked = p.replicas - out - p.partition
    stopped = p.hold and not (out and p.hold == "NotSelected")
    if edit.verb is ActionVerb.ROLLBACK and p.hold == Hold.INJECT_ONLY:
        return ""  # new pods alone are asked to return
    if edit.verb is ActionVerb.ROLLBACK and (p.updated_after < p.replicas - out or stopped):
        return f"{p.updated_after} of {p.replicas} pods return: {p.message or p.hold}"
    if edit.verb in {ActionVerb.HOLD, ActionVerb.PAUSE} and p.updated_after > p.updated_before:
        return f"{p.updated_after - p.updated_before} more pods are updated"
    if edit.verb is ActionVerb.PROMOTE and p.hold == STUCK:
        return p.message or "pods do not become available"
    if edit.verb is ActionVerb.PROMOTE and p.hold != "Paused" and p.updated_after < asked:
        return f"{p.updated_after} of the {asked} pods asked for are updated: {p.hold}"
    return ""

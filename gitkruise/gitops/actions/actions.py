"""Actions on a rollout as edits of its manifest: fields, commit message, and simulation.

Every action does exactly what was requested: the edited commit is simulated first, and rejected
when the simulated rollout ends in another state or when it changes more than the one object.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from gitkruise.errors import Finding, NothingToDo, UsageProblem
from gitkruise.git.edit.set_field import edit_field
from gitkruise.git.kustomize.remote_bases import root_of
from gitkruise.git.plumbing.commits import ACTION, OBJECT, format_message
from gitkruise.git.plumbing.trees import clean_path
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.hold import FILE, held_by
from gitkruise.gitops.actions.kustomized import Kustomized, KustomizedFolder
from gitkruise.gitops.actions.rollback import (
    compute_rollback,
    file_at,
    rollback_target,
    template_paths,
    templates,
)
from gitkruise.gitops.preview.inputs import name_in_config
from gitkruise.gitops.status.reader import PodsToGo
from gitkruise.model.gitops.change import FieldChange
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.gate import (
    RolloutGate,
    counted,
    keeping,
    lacking,
    open_gate,
    strategy_path,
)
from gitkruise.model.workloads.labels import DEPLOYMENT, SIDECARSET, STATEFULSET
from gitkruise.planner.sync.diff import all_differences
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import ObjectKey, named
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.values.intstr import Partition

_Read = TypeVar("_Read")
_RETURNS: Final = {
    "partition": "every pod returns: a partition kept while the template goes back moves none.",
    "canary": "every pod returns.",
}


class ActionVerb(StrEnum):
    PROMOTE = "promote"
    HOLD = "hold"
    PAUSE = "pause"
    RESUME = "resume"
    ROLLBACK = "rollback"


# What these end may have been set with kubectl, where git has no such field.
LIVE_SETTINGS: Final = frozenset({ActionVerb.PROMOTE, ActionVerb.RESUME})


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTarget:
    """The object an act is about, as git has it, and the unit that brings it to the cluster."""

    desired: Desired
    unit: Unit
    commit: str  # the branch's tip
    pods: int  # as far as git or the cluster knows

    @property
    def key(self) -> ObjectKey:
        return self.desired.key

    def strategy(self, field: str) -> Any:
        """A field of the update strategy, wherever the object's version keeps it."""
        return get(self.desired.obj, *strategy_path(self.desired.document, field))

    @property
    def promoted(self) -> bool:
        """Return whether its unit promotes it step by step."""
        promotion = self.unit.spec.promotion
        workload = promotion.workload if promotion is not None else None
        return workload is not None and (workload.group_kind, workload.name) == (
            self.key.group_kind, self.key.name,
        )  # fmt: skip

    @property
    def kustomized(self) -> KustomizedFolder | None:
        """Return the folder that kustomize may render; None where files are taken as they are."""
        return KustomizedFolder.of(self.unit)

    @property
    def gate(self) -> RolloutGate:
        """The partition or canary that git has."""
        return RolloutGate(self.key.group_kind, self.strategy("partition"))

    def kept(self, gate: RolloutGate) -> int:
        """Pods that a gate keeps on the current revision. Raises UsageProblem GK7042."""
        return self._read(gate, lambda it: it.kept(self.pods))

    def keeps_none(self, gate: RolloutGate) -> bool:
        """Return whether a gate keeps no pod at all. Raises UsageProblem GK7042."""
        return self._read(gate, lambda it: it.keeps_none(self.pods))

    def _read(self, gate: RolloutGate, read: Callable[[RolloutGate], _Read]) -> _Read:
        try:
            return read(gate)
        except ValueError as error:
            raise _refuse(
                self,
                "GK7042",
                f"its {gate.noun} cannot be read: {error}",
                next_=f"correct it in git, or go back: gitkruise rollback {named(self.key)}",
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionArgs:
    """Arguments of a verb: `partition` or `updated` for promote and hold; for rollback `to`, a
    commit, or `failed`, the commits to which it does not go back. `keep` is how many pods are not
    updated yet and `pods` how many there are, where that is known. `paused` and `kept` are the live
    pause and the old pods that the live partition keeps: a user may have set them with kubectl, and
    git has no such field."""

    partition: str = ""
    updated: str = ""
    to: str = ""
    failed: tuple[str, ...] = ()
    keep: int | None = None
    pods: int | None = None
    paused: bool = False
    kept: int = 0

    @classmethod
    def keeping(cls, left: PodsToGo | None) -> ActionArgs:
        """Return the arguments of a hold that keeps the pods not updated yet; None: unknown."""
        return cls() if left is None else cls(keep=left.to_go, pods=left.replicas)

    def over(self, left: PodsToGo | None) -> ActionArgs:
        """Return these arguments for a rollout that is live like this; None: unknown."""
        return self if left is None else replace(self, paused=left.paused, kept=left.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """A file to write, and the message of its commit."""

    verb: ActionVerb
    file: str
    data: bytes
    fields: tuple[FieldChange, ...]
    words: str  # `promote to partition 30%`
    why: str = ""  # the commit's body
    trailers: tuple[tuple[str, str], ...] = ()
    others: Mapping[str, bytes] = field(default_factory=dict)  # further files to write

    @property
    def files(self) -> Mapping[str, bytes]:
        """Return every file to write."""
        return {self.file: self.data, **self.others}


def compute(
    verb: ActionVerb, repository: Repository, target: ActionTarget, args: ActionArgs
) -> FileEdit:
    """Return the edit that does it.

    Raises NothingToDo GK7041 when git asks for it already, UsageProblem GK704x when it makes no
    sense, InvalidManifests when the file cannot be edited.
    """
    if args.pods is not None and target.key.group_kind == DEPLOYMENT:
        target = replace(target, pods=args.pods)
    if why := lacking(target.key.group_kind, verb):
        raise _refuse(target, "GK7042", why, next_=_other_way(target.key, verb))
    recreate = get(target.desired.obj, "spec", "strategy", "type") == "Recreate"
    if recreate and verb in {ActionVerb.PROMOTE, ActionVerb.HOLD}:
        raise _refuse(
            target,
            "GK7042",
            "strategy Recreate replaces all pods at the same time, so no canary holds it",
            next_=f"gitkruise pause {named(target.key)}",
        )
    return _VERBS[verb](repository, target, args)


def _promote(repository: Repository, target: ActionTarget, args: ActionArgs) -> FileEdit:
    now, to = target.gate, _asked(target, args) or open_gate(target.key.group_kind)
    canary = target.key.group_kind == DEPLOYMENT  # which an annotation of git's own leads
    by_hand = args.kept > target.kept(to) and not canary and target.strategy("partition") is None
    if target.keeps_none(now) and not by_hand:
        raise _nothing(target, f"its {_already(now)}: it keeps no pod back")
    if target.kept(to) == target.kept(now) and not by_hand:
        raise _nothing(target, f"{now} lets as many pods through already")
    if target.kept(to) > target.kept(now) and not by_hand:
        raise _refuse(
            target,
            "GK7042",
            f"{to} lets fewer pods through than {now} does",
            next_=f"name a {_further(to)} one, or go back: gitkruise rollback {named(target.key)}",
        )
    words = "promote to all" if target.keeps_none(to) else f"promote to {to}"
    return _edited(repository, target, ActionVerb.PROMOTE, {"partition": to.value}, words)


def _hold(repository: Repository, target: ActionTarget, args: ActionArgs) -> FileEdit:
    now, asked = target.gate, _asked(target, args)
    if asked is not None:
        to = asked
    elif args.keep is None:
        raise _refuse(
            target,
            "GK7047",
            "how many of its pods are updated is not known here",
            next_="name a cluster (--sandbox, --context) or the number (--updated 40%), or fetch "
            "the status branch",
        )
    else:
        _check_holdable(target, args.keep)
        kept = max(args.keep, target.kept(now))
        to = keeping(target.key.group_kind, kept, target.pods)
    if target.kept(to) < target.kept(now):
        message = f"{to} would let more pods through than {now} does"
        raise _refuse(target, "GK7042", message, next_=f"gitkruise promote {named(target.key)}")
    if target.kept(to) == target.kept(now) and target.promoted and not _held_by(repository, target):
        why = "The promotion stays here until a user promotes or resumes it."
        return _message_only(repository, target, ActionVerb.HOLD, f"hold at {now}", why)
    if target.kept(to) == target.kept(now):
        raise _nothing(target, f"{now} holds it there already")
    return _edited(repository, target, ActionVerb.HOLD, {"partition": to.value}, f"hold at {to}")


def _check_holdable(target: ActionTarget, keep: int) -> None:
    """Raise for a Deployment's rollout that no canary can stop any more (CAN-12)."""
    if target.key.group_kind != DEPLOYMENT or not target.keeps_none(target.gate):
        return
    if keep == 0:
        raise _nothing(target, "all its pods are updated")
    raise _refuse(
        target,
        "GK7042",
        "its rollout began without a canary, and one set now applies to the next rollout",
        next_=f"gitkruise pause {named(target.key)}",
    )


def _other_way(key: ObjectKey, verb: ActionVerb) -> str:
    """Return what does the work of a verb that a kind has no field for."""
    if key.group_kind == STATEFULSET:
        return f"gitkruise {'hold' if verb is ActionVerb.PAUSE else 'promote'} {named(key)}"
    return "a commit with updateStrategy.type: OnDelete, or RollingUpdate to let it go on"


def _pause(repository: Repository, target: ActionTarget, _: ActionArgs) -> FileEdit:
    if target.strategy("paused"):
        raise _nothing(target, "it is paused already")
    return _edited(repository, target, ActionVerb.PAUSE, {"paused": True}, "pause")


def _resume(repository: Repository, target: ActionTarget, args: ActionArgs) -> FileEdit:
    if not target.strategy("paused") and target.promoted and _held_by(repository, target):
        return _message_only(repository, target, ActionVerb.RESUME, "let the promotion go on", "")
    by_hand = args.paused and target.strategy("paused") is None
    if not target.strategy("paused") and not by_hand:
        raise _nothing(target, "git does not pause it")
    return _edited(repository, target, ActionVerb.RESUME, {"paused": False}, "resume")


def _rollback(repository: Repository, target: ActionTarget, args: ActionArgs) -> FileEdit:
    file, now, folder = target.desired.document.file, target.commit, target.kustomized
    check_written(target.unit, target.desired, "template")
    if args.to:
        back = repository.commit(args.to)
        earlier = file_at(repository, now, target.key, file, folder, to=back.id)
        trailers: tuple[tuple[str, str], ...] = ()
    else:
        span = rollback_target(repository, now, target.key, file, folder, args.failed)
        if span is None:
            why = "there is nothing to do: git contains no earlier template of it"
            raise _refuse(target, "GK7041", why, next_="a commit that mends its template")
        back, earlier = span.until, span.document.file
        newest = next(templates(repository, now, target.key, file, folder))
        trailers = (("Gitkruise-Rollback-Of", newest.since.id),)
    found = compute_rollback(
        repository, target.key, now=now, to=back.id, file=file, earlier=earlier, folder=folder
    )
    if not found.fields:
        raise _nothing(
            target, f"git asks for the template of {back.short} already, and for all pods"
        )
    same = back.id == now or not any(c.path[:2] in template_paths(target.key) for c in found.fields)
    words = "let every pod return" if same else f"roll back to {back.short}"
    noun = target.gate.noun
    why = "" if same else f'Back to "{back.subject}". Template and {noun} together, so that '
    why += _RETURNS[noun]
    return FileEdit(
        verb=ActionVerb.ROLLBACK,
        file=found.file,
        data=found.data,
        fields=found.fields,
        words=words,
        why=why[:1].upper() + why[1:],
        trailers=trailers,
        others=found.others,
    )


_VERBS: Final[Mapping[ActionVerb, Callable[[Repository, ActionTarget, ActionArgs], FileEdit]]] = {
    ActionVerb.PROMOTE: _promote,
    ActionVerb.HOLD: _hold,
    ActionVerb.PAUSE: _pause,
    ActionVerb.RESUME: _resume,
    ActionVerb.ROLLBACK: _rollback,
}


def act_message(
    edit: FileEdit,
    target: ActionTarget,
    *,
    subject: str = "",
    trailers: Sequence[tuple[str, str]] = (),
) -> str:
    """The message of the commit that carries an edit; its trailers say what was done to what."""
    unit = name_in_config(target.unit)
    own = [
        (ACTION, str(edit.verb)),
        *([("Gitkruise-Unit", unit)] if unit else []),
        (OBJECT, str(target.key)),
        *([] if edit.fields else [(FILE, edit.file)]),
    ]
    subject = subject or f"{target.key.name}: {edit.words}"
    return format_message(subject, edit.why, [*own, *edit.trailers, *trailers])


def _edited(
    repository: Repository,
    target: ActionTarget,
    verb: ActionVerb,
    fields: Mapping[str, Any],
    words: str,
) -> FileEdit:
    document = target.desired.document
    check_written(target.unit, target.desired, "partition" if "partition" in fields else words)
    kustomized = Kustomized.of(repository, target.commit, target.kustomized)
    edits = kustomized.edits(target.commit) if kustomized is not None else None
    data = b"" if edits is not None else _data(repository, document.file, target.commit)
    after = document.obj
    for name, value in fields.items():
        path = strategy_path(document, name)
        if edits is not None:
            edits.set(document, path, value)
        else:
            data = edit_field(data, document.file, target.key, path, value)
        after = put(after, path, value)
    changes = all_differences(document.obj, after, None)
    files = {document.file: data} if edits is None else edits.files
    (file, data), *others = files.items()
    return FileEdit(
        verb=verb, file=file, data=data, fields=changes, words=words, others=dict(others)
    )


def check_written(unit: Unit, desired: Desired, field: str) -> None:
    """Refuse to edit an object that a chart renders: its fields are computed from values.

    Raises UsageProblem GK3602.
    """
    render = unit.spec.render
    if render.kind != "helm":
        return
    files = render.helm.values_files if render.helm else ()
    own = posixpath.join(clean_path(unit.spec.path), "values.yaml")
    where = shown(files[-1] if files else own)
    inline = ", or in render.helm.values of its unit" if render.helm and render.helm.values else ""
    raise _refused(
        desired,
        "GK3602",
        f"its chart computes the {field} from values, which gitkruise does not edit",
        next_=f"change the value in {where}{inline}, and commit",
    )


def _data(repository: Repository, file: str, commit: str) -> bytes:
    """The file that an object is written in."""
    entry = repository.find(commit, file)
    assert entry is not None
    return repository.read_blob(entry.id)


def _message_only(
    repository: Repository, target: ActionTarget, verb: ActionVerb, words: str, why: str
) -> FileEdit:
    """No change of the object: what is done is that it is said, in a commit."""
    file, commit = target.desired.document.file, target.commit
    if root_of(file):  # in the repository of a remote base
        kustomized = Kustomized.of(repository, commit, target.kustomized)
        assert kustomized is not None
        file = kustomized.edits(commit).kustomizations[0].file
    data = _data(repository, file, commit)
    return FileEdit(verb=verb, file=file, data=data, fields=(), words=words, why=why)


def _held_by(repository: Repository, target: ActionTarget) -> bool:
    file, folder = target.desired.document.file, target.kustomized
    return held_by(repository, target.commit, target.key, file, folder) is not None


def _asked(target: ActionTarget, args: ActionArgs) -> RolloutGate | None:
    """The gate that was asked for, by the pods that stay or by those that are updated; None
    without.

    Raises UsageProblem GK7042.
    """
    kind = target.key.group_kind
    if args.updated:
        updated = _amount(args.updated, "number of updated pods")
        return counted(RolloutGate(kind, _value_of(target, updated)), target.pods)
    if not args.partition:
        return None
    partition = _amount(args.partition, "partition")
    if kind != DEPLOYMENT:
        return counted(RolloutGate(kind, partition), target.pods)
    return keeping(kind, Partition(partition).kept(target.pods), target.pods)


def _value_of(target: ActionTarget, updated: int | str) -> int | str:
    """The value under which `updated` pods are updated; a partition's share is rounded down, to
    pods."""
    if target.key.group_kind == DEPLOYMENT:
        return str(updated)
    if isinstance(updated, str):
        kept = 100 - int(updated.removesuffix("%"))
        return f"{kept}%" if kept else 0
    if target.key.group_kind == SIDECARSET:
        raise _refuse(
            target,
            "GK7042",
            "git does not say how many pods it has, so a number of updated pods names no partition",
            next_="name a share, --updated 30%, or the pods that stay, --partition 7",
        )
    if updated > target.pods:
        raise _refuse(target, "GK7042", f"{updated} updated pods are more than all {target.pods}")
    return target.pods - updated if updated else "100%"


def _amount(text: str, noun: str) -> int | str:
    """`28` or `30%`. Raises UsageProblem GK7042."""
    digits = text.removesuffix("%")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        message = f'"{text}" is no {noun}: write a number of pods, or a percentage such as 30%'
        raise UsageProblem(Finding(code="GK7042", message=message))
    if text.endswith("%"):
        if int(digits) > 100:
            message = f"{text} is more than all of them"
            raise UsageProblem(Finding(code="GK7042", message=message))
        return 0 if int(digits) == 0 else f"{int(digits)}%"
    return int(digits)


def _nothing(target: ActionTarget, why: str) -> NothingToDo:
    return NothingToDo(*_refuse(target, "GK7041", f"there is nothing to do: {why}").findings)


def _refuse(target: ActionTarget, code: str, message: str, next_: str = "") -> UsageProblem:
    return _refused(target.desired, code, message, next_)


def _refused(desired: Desired, code: str, message: str, next_: str) -> UsageProblem:
    place = desired.document.place(strategy_path(desired.document, "partition"))
    notes = [("unchanged", "nothing was committed or pushed")]
    notes += [("next", next_)] if next_ else []
    finding = Finding(
        code=code, message=f"{desired.key}: {message}", places=(place,), notes=tuple(notes)
    )
    return UsageProblem(finding)


def _already(gate: RolloutGate) -> str:
    if gate.noun == "partition":
        return "partition is 0 already"
    return f"rollout has {gate}" if gate.value is None else f"{gate} lets all pods through already"


def _further(gate: RolloutGate) -> str:
    return "lower" if gate.noun == "partition" else "higher"

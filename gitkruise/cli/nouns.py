"""What the words after `get` mean: `rollouts`, `cloneset/checkout`, `cs checkout`, `pods x`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.model.labels import CLONESET, SIDECARSET
from gitkruise.wire.names import GroupKind

_WORDS: Final = {
    "rollouts": ("rollout", "ro"),
    "clonesets": ("cloneset", "clone", "cs", "clonesets.apps.kruise.io", "cloneset.apps.kruise.io"),
    "sidecarsets": ("sidecarset", "sidecar", "ss"),
    "pods": ("pod", "po"),
    "revisions": ("revision", "rev"),
    "events": ("event", "ev"),
    "units": ("unit",),
}
NOUNS: Final = {
    **{noun: noun for noun in _WORDS},
    **{alias: noun for noun, aliases in _WORDS.items() for alias in aliases},
}
_ROLLOUTS: Final = frozenset({"rollouts", "clonesets"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A noun in its plural, and the object it is narrowed to: its name, or "" for all."""

    noun: str
    name: str = ""

    @property
    def rollouts(self) -> bool:
        return self.noun in _ROLLOUTS


def parse_wanted(words: tuple[str, ...]) -> Wanted:
    """`(type)`, `(type, name)`, `(type/name)` or `(type, owner/name)`. Raises UsageProblem."""
    if not words:
        raise _usage("GK7014", f"get what? One of {', '.join(_WORDS)}")
    head, slash, name = words[0].partition("/")
    noun = _noun(head)
    rest = words[1:]
    if len(rest) > (0 if slash else 1):
        raise _usage("GK7014", f"too many names: {' '.join(words)}")
    if rest:
        owner, slash, name = rest[0].rpartition("/")
        if slash and _noun(owner) not in {"rollouts", "clonesets", noun}:
            raise _usage("GK7014", f'"{owner}" has no {noun}')
    if slash and not name:
        raise _usage("GK7014", f'"{words[-1]}" names nothing')
    return Wanted(noun=noun, name=name)


def parse_object(text: str) -> Wanted:
    """`type/name`, or a name alone, which is a CloneSet's. "" means every rollout."""
    if not text:
        return Wanted(noun="clonesets")
    return parse_wanted((text,)) if "/" in text else Wanted(noun="clonesets", name=text)


_KINDS: Final = {
    "deployment": GroupKind("apps", "Deployment"),
    "deploy": GroupKind("apps", "Deployment"),
    "statefulset": GroupKind("apps", "StatefulSet"),
    "sts": GroupKind("apps", "StatefulSet"),
    "daemonset": GroupKind("apps", "DaemonSet"),
    "job": GroupKind("batch", "Job"),
    "cronjob": GroupKind("batch", "CronJob"),
}


def parse_workload(text: str) -> tuple[GroupKind, str]:
    """`type/name` of anything that runs pods; a name alone is a CloneSet's. Raises UsageProblem."""
    word, slash, name = text.partition("/")
    kind = _KINDS.get(word.lower().partition(".")[0])
    if slash and name and kind is not None:
        return kind, name
    wanted = parse_object(text)
    kinds = {"rollouts": CLONESET, "clonesets": CLONESET, "sidecarsets": SIDECARSET}
    if not wanted.name or wanted.noun not in kinds:
        raise _usage("GK7014", f'"{text}" names no workload', ", ".join(["cloneset", *_KINDS]))
    return kinds[wanted.noun], wanted.name


def _noun(word: str) -> str:
    found = NOUNS.get(word.lower())
    if found:
        return found
    import difflib  # noqa: PLC0415  only for a mistyped word

    near = difflib.get_close_matches(word.lower(), NOUNS, 1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    raise _usage("GK7014", f'there is nothing called "{word}" to get.{hint}', ", ".join(_WORDS))


def _usage(code: str, message: str, known: str = "") -> UsageProblem:
    notes = (("known", known),) if known else ()
    return UsageProblem(Finding(code=code, message=message, notes=notes))

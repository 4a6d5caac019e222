"""Resource arguments: `rollouts`, `cloneset/checkout`, `cs checkout`, `pods x`; their completion.

Completion reads the records and the configuration of a local repository. Nothing is fetched and no
cluster is asked: a completion must not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from gitkruise.errors import Finding, GitkruiseError, UsageProblem
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    DAEMONSET,
    DEPLOYMENT,
    SIDECARSET,
    STATEFULSET,
)
from gitkruise.model.workloads.rollout_kinds import REPORTING
from gitkruise.wire.primitives.names import CONFIG_FILE, GroupKind, noun, short_name

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from gitkruise.git.repository.repository import Repository
    from gitkruise.wire.primitives.names import ObjectKey

    _Completions: TypeAlias = list[str | CompletionItem]

_WORDS: Final = {
    "rollouts": ("rollout", "ro"),
    "clonesets": ("cloneset", "clone", "cs"),
    "sidecarsets": ("sidecarset", "sidecar", "ss"),
    "deployments": ("deployment", "deploy"),
    "statefulsets": ("statefulset", "sts"),
    "advancedstatefulsets": ("advancedstatefulset", "asts"),
    "daemonsets": ("daemonset", "ds"),
    "pods": ("pod", "po"),
    "revisions": ("revision", "rev"),
    "events": ("event", "ev"),
    "units": ("unit",),
}
NOUNS: Final = {
    **{noun: noun for noun in _WORDS},
    **{alias: noun for noun, aliases in _WORDS.items() for alias in aliases},
}
_ROLLOUTS: Final = frozenset(
    {"rollouts", "clonesets", "deployments", "statefulsets", "daemonsets", "advancedstatefulsets"}
)


def object_argument(
    name: str = "object_name", *, metavar: str = "TYPE/NAME", required: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the argument of one object, "" for none."""
    completes = unit_objects if metavar.startswith("unit/") else workloads
    shown = metavar if required else f"[{metavar}]"
    return click.argument(
        name,
        nargs=-1,
        required=required,
        metavar=shown,
        shell_complete=completes,
        callback=lambda ctx, _, words: in_one_word(ctx, words),
    )


def in_one_word(ctx: click.Context, words: tuple[str, ...]) -> str:
    """Return `TYPE/NAME` for `TYPE NAME` as well, as kubectl reads both. Raises UsageError."""
    match words:
        case () | (_,):
            return "".join(words)
        case (noun, name) if "/" not in noun + name:
            return f"{noun}/{name}"
    raise click.UsageError(f"one object is expected, not: {' '.join(words)}", ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceArg:
    """A plural noun, and the name of one object or "" for all.

    `owner` is the noun of the rollout behind pods, revisions or events, "" for one of any kind.
    """

    noun: str
    name: str = ""
    owner: str = ""

    @property
    def rollouts(self) -> bool:
        return self.noun in _ROLLOUTS


def parse_resource_arg(words: tuple[str, ...]) -> ResourceArg:
    """Parse `type`, `type name`, `type/name` or `type owner/name`. Raises UsageProblem."""
    if not words:
        raise _bad_argument(f"no type given; known: {', '.join(_WORDS)}")
    head, slash, name = words[0].partition("/")
    noun = _noun(head)
    rest, of = words[1:], ""
    if len(rest) > (0 if slash else 1):
        raise _bad_argument(f"too many names: {' '.join(words)}")
    if rest:
        owner, slash, name = rest[0].rpartition("/")
        of = _noun(owner) if slash else ""
        if slash and of not in {*_ROLLOUTS, noun}:
            raise _bad_argument(f'"{owner}" has no {noun}')
    if slash and not name:
        raise _bad_argument(f'"{words[-1]}": no name after the slash')
    return ResourceArg(noun=noun, name=name, owner=of if of != noun else "")


def parse_object(text: str) -> ResourceArg:
    """Parse `type/name`, or the name of a CloneSet. "" means every rollout."""
    if not text:
        return ResourceArg(noun="clonesets")
    return parse_resource_arg((text,)) if "/" in text else ResourceArg(noun="clonesets", name=text)


UNIT_NOUNS: Final = ("unit", "units", "gku", "unit.gitkruise.io", "units.gitkruise.io")
WORKLOAD_KINDS: Final = {
    "rollouts": CLONESET,
    "clonesets": CLONESET,
    "sidecarsets": SIDECARSET,
    "deployments": DEPLOYMENT,
    "statefulsets": STATEFULSET,
    "advancedstatefulsets": ADVANCED_STATEFULSET,
    "daemonsets": DAEMONSET,
}
_TYPED: Final = WORKLOAD_KINDS.keys() - {"rollouts"}


def parse_workload(text: str) -> tuple[GroupKind, str]:
    """Parse `type/name` of a workload, or the name of a CloneSet. Raises UsageProblem."""
    kind, name = named_workload(text)
    if kind is None or not name:
        known = [noun for noun in WORKLOAD_KINDS if noun in _TYPED] + [*map(noun, REPORTING)]
        raise _bad_argument(f'"{text}": not a workload', ", ".join(known), _elsewhere(text))
    return kind, name


def named_workload(text: str) -> tuple[GroupKind | None, str]:
    """Return the kind and the name of `type/name`, or of the name of a CloneSet; no kind for a type
    of no workload."""
    word, slash, name = text.rpartition("/")
    return (workload_kind(word.lower()) if slash else CLONESET), name


def named_unit(text: str) -> str:
    """Return the name of `unit/name`, "" for anything else."""
    word, _, name = text.rpartition("/")
    return name if word.lower() in UNIT_NOUNS else ""


def named_pod(text: str) -> str:
    """Return the name of `pod/name`, "" for anything else."""
    word, _, name = text.rpartition("/")
    return name if _known_noun(word.lower()) == "pods" else ""


def workload_kind(word: str) -> GroupKind | None:
    """Return the kind of a type, which may have its group: `deploy.apps`, `jobs.v1.batch`; None
    for one of no workload."""
    known = WORKLOAD_KINDS.get(_known_noun(word))
    short, _, group = word.partition(".")
    names = {short, short.removesuffix("s")}
    others = (one for one in REPORTING if names & {noun(one), one.kind.lower()})
    return known or next((one for one in others if _has_group(one, group)), None)


def _has_group(kind: GroupKind, group: str) -> bool:
    """Return whether a kind is of `group`, which may follow a version; "" is any group."""
    return not group or kind.group in {group, group.partition(".")[2]}


def _known_noun(word: str) -> str:
    """Return the noun of a type in lower case, "" for an unknown one.

    kubectl distinguishes resources of one name by their groups: `sts.apps` is a StatefulSet, and
    `sts.apps.kruise.io` an Advanced StatefulSet.
    """
    short, dot, group = word.partition(".")
    found = NOUNS.get(short, "")
    if not dot:
        return found
    nouns = (found, f"advanced{found}")
    kinds = {noun: WORKLOAD_KINDS[noun] for noun in nouns if noun in _TYPED}
    return next((noun for noun, kind in kinds.items() if _has_group(kind, group)), "")


def _noun(word: str) -> str:
    found = _known_noun(word.lower())
    if found:
        return found
    import difflib  # noqa: PLC0415  only for a mistyped word

    near = difflib.get_close_matches(word.lower(), NOUNS, 1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    raise _bad_argument(f'"{word}": unknown type.{hint}', ", ".join(_WORDS))


def _elsewhere(text: str) -> str:
    """Return the next step for an object of a type that is no workload."""
    word, _, name = text.rpartition("/")
    if not (word and name):
        return "write TYPE/NAME with one of these types"
    import shlex  # noqa: PLC0415  only for an error

    described = f"kubectl describe {shlex.quote(word)} {shlex.quote(name)}"
    return f"name one of these; of another type: {described}"


def _bad_argument(message: str, known: str = "", following: str = "") -> UsageProblem:
    notes = [("known", known)] if known else []
    notes.append(("next", following or "write TYPE/NAME; --help has examples"))
    return UsageProblem(Finding(code="GK7014", message=message, notes=tuple(notes)))


# Completion -------------------------------------------------------------------------------------


def workloads(ctx: click.Context, param: click.Parameter, typed: str) -> _Completions:
    """Return `type/name` of the recorded workloads, of the namespace that is named if one is;
    names alone after a type."""
    namespace = ctx.params.get("namespace") or ""
    keys = [key for key in _recorded_objects(ctx) if namespace in {"", key.namespace}]
    kinds = {short_name(key): key.group_kind for key in keys}
    words = {w for w, kind in kinds.items() if workload_kind(w.partition("/")[0]) == kind}
    first = _first_word(ctx, param)
    if "/" in first:
        return []
    if (wanted := workload_kind(first)) is not None:
        words = {w.partition("/")[2] for w in words if kinds[w] == wanted}
    return _beginning(words, typed)


def types_or_workloads(ctx: click.Context, param: click.Parameter, typed: str) -> _Completions:
    """Return the types of `get` until one is there, then the recorded workloads."""
    if "/" in typed or _first_word(ctx, param):
        return workloads(ctx, param, typed)
    return _beginning(set(NOUNS.values()), typed)


def _first_word(ctx: click.Context, param: click.Parameter) -> str:
    """Return the first word of the same argument that is complete, "" for none."""
    given = ctx.params.get(param.name or "") or ""
    return given if isinstance(given, str) else given[0]


def unit_ids(ctx: click.Context, _param: click.Parameter, typed: str) -> _Completions:
    """Return `namespace/name` of the recorded and the configured units."""
    return _beginning(_unit_ids(ctx), typed)


def unit_objects(ctx: click.Context, _param: click.Parameter, typed: str) -> _Completions:
    """Return `unit/name` of the same units, of the namespace that is named if one is."""
    namespace = ctx.params.get("namespace") or ""
    ids = (id_.partition("/") for id_ in _unit_ids(ctx))
    return _beginning({f"unit/{name}" for at, _, name in ids if namespace in {"", at}}, typed)


def _beginning(words: set[str], typed: str) -> _Completions:
    return sorted(word for word in words if word.startswith(typed))


def _recorded_objects(ctx: click.Context) -> set[ObjectKey]:
    """Return the objects of the records, as far as they can be read: a completion has no place
    for an error."""
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415  imports GitPython
    from gitkruise.gitops.status.reader import read_objects  # noqa: PLC0415  as above

    found: set[ObjectKey] = set()
    with suppress(GitkruiseError, OSError), Repository.open(_folder(ctx)) as repository:
        for path, blob in _record_files(repository):
            if path.endswith("/objects.tsv"):
                with suppress(ValueError):  # the other files are records
                    found |= read_objects(repository.read_blob(blob)).keys()
    return found


def _unit_ids(ctx: click.Context) -> set[str]:
    """Return the units of the records and of the configuration, as far as they can be read."""
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415  as above
    from gitkruise.gitops.config.loader import load_config  # noqa: PLC0415  imports jsonschema

    found: set[str] = set()
    with suppress(GitkruiseError, OSError), Repository.open(_folder(ctx)) as repository:
        paths = (path.split("/") for path, _ in _record_files(repository))
        found |= {f"{parts[1]}/{parts[2]}" for parts in paths if len(parts) > 3}
    with suppress(GitkruiseError, OSError):
        found |= load_config(ctx.params.get("config_path") or Path(CONFIG_FILE)).units.keys()
    return found


def _record_files(repository: Repository) -> Iterator[tuple[str, str]]:
    """Yield path and blob of each file of a unit, on each status branch that was fetched."""
    from gitkruise.gitops.status.reader import status_branches  # noqa: PLC0415  as above

    for ref in status_branches(repository).values():
        for entry in repository.list_tree(repository.resolve(ref)):
            if entry.path.startswith("units/"):
                yield entry.path, entry.id


def _folder(ctx: click.Context) -> str:
    from gitkruise.cli.context.local_repository import checkout_of  # noqa: PLC0415  start-up budget

    return str(checkout_of(Path(ctx.params.get("repo") or ".")))

"""The admission chain: what every write passes, as one table of stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from gitkruise.admission.cloneset import cloneset_problems, default_cloneset
from gitkruise.admission.metadata import metadata_problems
from gitkruise.admission.request import CREATE, UPDATE, AdmissionRequest
from gitkruise.errors import BadRequest, Problem, invalid_object
from gitkruise.model.settings import Gates
from gitkruise.wire.names import GroupKind, Obj
from gitkruise.wire.normal_form import Malformed

Mutate: TypeAlias = Callable[[AdmissionRequest, Gates], Obj]
Examine: TypeAlias = Callable[[AdmissionRequest, Gates], Iterable[Problem]]
WRITES: Final = frozenset({CREATE, UPDATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One link: first every `mutate` runs in order, then every `examine`.

    No kinds means all kinds. `examine` gives the broken rules, or raises Forbidden to refuse the
    write as a whole. The subresource "" is the object itself.
    """

    name: str
    kinds: frozenset[GroupKind] = frozenset()
    operations: frozenset[str] = WRITES
    subresources: frozenset[str] = field(default_factory=lambda: frozenset({""}))
    mutate: Mutate | None = None
    examine: Examine | None = None

    def concerns(self, request: AdmissionRequest) -> bool:
        return (
            (not self.kinds or request.key.group_kind in self.kinds)
            and request.operation in self.operations
            and request.subresource in self.subresources
        )


STAGES: Final = (
    Stage(name="metadata", examine=metadata_problems),
    Stage(
        name="cloneset",
        kinds=frozenset({GroupKind("apps.kruise.io", "CloneSet")}),
        mutate=default_cloneset,
        examine=cloneset_problems,
    ),
)


def admit(
    request: AdmissionRequest, gates: Gates, stages: tuple[Stage, ...] = STAGES
) -> Obj | None:
    """The object as it is to be stored, in the version of `request.obj`; None on DELETE.

    Raises BadRequest (a value no type can hold), InvalidObject (every broken rule with its field)
    and Forbidden (a protected deletion).
    """
    chosen = [stage for stage in stages if stage.concerns(request)]
    try:
        for stage in chosen:
            if stage.mutate:
                request = replace(request, obj=stage.mutate(request, gates))
        problems = [p for stage in chosen if stage.examine for p in stage.examine(request, gates)]
    except Malformed as error:
        raise _malformed(request, error) from error
    if problems:
        key = request.key
        raise invalid_object(key.kind, key.group, key.name, problems)
    return request.obj


def _malformed(request: AdmissionRequest, error: Malformed) -> BadRequest:
    kind, version = request.key.kind, request.kind.version
    return BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}')

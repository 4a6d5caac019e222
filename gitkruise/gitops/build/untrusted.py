"""Interface of the workers that process repository content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import Builder, BuildRequest, BuildResult
from gitkruise.gitops.build.post_build import PostBuildInputs
from gitkruise.gitops.build.release import KnownData
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import Obj, ObjectKey

if TYPE_CHECKING:  # results of work that imports this interface
    from gitkruise.gitops.preview.cluster_facts import ClusterFacts
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.gitops.workers.frames import PlanPage, PlanText

BuiltUnit: TypeAlias = "tuple[Builder, str, str]"  # a unit's reader, its live commit and content
Asked: TypeAlias = "tuple[tuple[str, ...], Obj]"  # expressions, and the object they are about


class CheckResult(msgspec.Struct, frozen=True, array_like=True, tag="judged"):
    """Result of some expressions: the number of the first true one, or -1.

    If one cannot be evaluated, `number` is that one and `why` the reason. `costly`: evaluating it
    again would exceed the limits again. A worker process answers with it, too.
    """

    number: int
    why: str = ""
    costly: bool = False


@dataclass(frozen=True, slots=True)
class PagePart:
    """A plan, or the `diff` of its manifests; about the objects `shown` only, or about all."""

    diff: bool = False
    shown: frozenset[ObjectKey] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A part of the plan from the commit `base` ("" for none) to `head`.

    With `facts` it starts from the live objects. `stranger`: the author of `head` may not push to
    the repository.
    """

    base: str
    head: str
    part: PagePart
    facts: ClusterFacts | None = None
    stranger: bool = False


class Workers(Protocol):
    """Everything that reads repository content. The event loop only awaits it."""

    async def read(
        self, reader: Builder, request: BuildRequest, catalog: Catalog, inputs: PostBuildInputs
    ) -> BuildResult:
        """Build a trusted commit for a unit. Raises SourceFailed."""
        ...

    async def find_unchanged(
        self, units: Sequence[BuiltUnit], commit: str
    ) -> tuple[GitCommit, Sequence[bool]]:
        """Return the commit, and for each unit whether it is unchanged by it. Raises
        SourceFailed."""
        ...

    async def judge(self, asked: Sequence[Asked], *, strict: bool = False) -> Sequence[CheckResult]:
        """Evaluate expressions on objects; a missing field makes one false, or fail if `strict`."""
        ...

    async def check(self, asked: Sequence[Asked]) -> Sequence[CheckResult]:
        """Evaluate expressions on samples; `number` is that of one that fails, or -1."""
        ...

    async def side(
        self, repository: Repository, commit: str, config: Config, catalog: Catalog, gates: Gates,
        *, base: bool = False, known: KnownData | None = None,
    ) -> PlanSide:  # fmt: skip
        """Return the objects of all units at a commit; with `base`, as a cluster that follows it
        has them. `known` has values of the cluster. Raises SourceFailed, InvalidManifests."""
        ...

    async def plan_text(
        self, repository: Repository, config: Config, catalog: Catalog, gates: Gates,
        facts: ClusterFacts | None = None, *, base: str, head: str,
    ) -> PlanText:  # fmt: skip
        """Return the plan of a pull request from the live state; without `facts`, that of a pull
        request by a stranger. Raises SourceFailed, InvalidManifests."""
        ...

    async def page(
        self, repository: Repository, config: Config, catalog: Catalog, gates: Gates,
        request: PageRequest,
    ) -> PlanPage:  # fmt: skip
        """Return a plan or a diff as a page shows it. Raises SourceFailed, InvalidManifests."""
        ...

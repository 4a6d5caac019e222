"""gitkruise's own documents as frozen values: GitSource, Unit, Sink, Receiver.

Fields, names and defaults: docs of group gitkruise.io/v1alpha1 (`schemas/json`). Decoding is
strict: an unknown field is an error, never ignored.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import msgspec

from gitkruise.model.gitops.analysis import SecretReference
from gitkruise.model.gitops.document import Document
from gitkruise.model.gitops.image_policy import FollowedImage
from gitkruise.model.gitops.promotion import Promotion
from gitkruise.model.gitops.strict_struct import Strict
from gitkruise.wire.primitives.names import OWN_GROUP, GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.times import parse_duration, parse_time

OCI: Final = "oci://"  # starts the address of a repository of a registry
FOREVER: Final = datetime.max.replace(tzinfo=UTC)
RenderKind: TypeAlias = Literal["auto", "plain", "kustomize", "helm"]  # what the reader can do


class Reference(Strict, frozen=True):
    name: str
    namespace: str = ""


class GitRef(Strict, frozen=True):
    """One of these; precedence when several are set: commit, name, semver, tag, branch.

    Of an artifact: digest, semver (of the tags that match `semver_filter`), tag.
    """

    branch: str = ""
    tag: str = ""
    semver: str = ""
    name: str = ""
    commit: str = ""
    digest: str = ""
    semver_filter: str = ""

    @property
    def is_branch(self) -> bool:
        """Return whether it is a branch, named or by default, of a git repository."""
        return not (self.commit or self.name or self.semver or self.tag)

    @property
    def followed_branch(self) -> str:
        """Return the named branch; "" where something else comes first, or none is named."""
        return self.branch if self.is_branch else ""


class OidcIdentity(Strict, frozen=True):
    """Regular expressions for the signer of an artifact: who knows it, and its name."""

    issuer: str
    subject: str


class Verify(Strict, frozen=True):
    """Signatures of commits by `mode`, or with a `provider` those of an artifact: of the keys in
    `secret_ref`, or keyless ones of identities."""

    mode: Literal["head", "firstParent", "range", "tag", "tagAndHead"] = "head"
    provider: Literal["", "cosign"] = ""
    secret_ref: Reference | None = None
    identities: tuple[OidcIdentity, ...] = msgspec.field(default=(), name="matchOIDCIdentity")
    trusted_root_secret_ref: Reference | None = None


class LayerSelector(Strict, frozen=True):
    """The layer of an artifact that has the files; `copy` takes them all, without ignore files."""

    media_type: str = ""
    operation: Literal["extract", "copy"] = "extract"


class GitSourceSpec(Strict, frozen=True):
    url: str
    ref: GitRef = GitRef()
    interval: str = "5s"
    timeout: str = "60s"
    secret_ref: Reference | None = None
    verify: Verify | None = None
    allow_force_push: bool = False
    ignore: str = ""
    layer_selector: LayerSelector = LayerSelector()

    @property
    def ignored(self) -> tuple[str, ...]:
        """Return the patterns of files to leave out, which override those of ignore files."""
        copied = self.layer_selector.operation == "copy"
        return ("!*",) if copied else tuple(self.ignore.splitlines())

    @property
    def is_artifact(self) -> bool:
        """Return whether the source is an artifact of a registry instead of a git repository."""
        return self.url.startswith(OCI)


class ValuesFrom(Strict, frozen=True):
    """One object of the unit's namespace; exactly one of the two is set."""

    config_map: str = ""
    secret: str = ""


class Substitute(Strict, frozen=True):
    """`vars` win over `sources`, of which later ones win (field `from` on the wire)."""

    strict: bool = True
    vars: dict[str, str] = msgspec.field(default_factory=dict)
    sources: tuple[ValuesFrom, ...] = msgspec.field(default=(), name="from")


class ChartValuesFrom(Strict, frozen=True):
    """An entry of a ConfigMap or Secret of the unit's namespace, exactly one of the two."""

    config_map: str = ""
    secret: str = ""
    key: str = "values.yaml"
    optional: bool = False


class Helm(Strict, frozen=True):
    """A release of the chart at the unit's path, or of `chart` in a `repository` of charts; later
    values win: those of the chart, of `values_files`, of `values_from`, `values`.

    `version` is exact or a range.
    """

    repository: str = ""
    chart: str = ""
    version: str = ""
    secret_ref: SecretReference | None = None
    release_name: str = ""
    namespace: str = ""
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    values_files: tuple[str, ...] = ()
    values_from: tuple[ChartValuesFrom, ...] = ()
    include_crds: bool = msgspec.field(default=True, name="includeCRDs")
    skip_tests: bool = False
    kube_version: str = ""
    api_versions: tuple[str, ...] = ()


class RemoteBase(Strict, frozen=True):
    """A repository that kustomizations may take bases from."""

    url: str
    secret_ref: SecretReference | None = None


class Kustomize(Strict, frozen=True):
    remote_bases: tuple[RemoteBase, ...] = ()


class Decryption(Strict, frozen=True):
    provider: Literal["sops"]
    secret_ref: Reference | None = None


class Render(Strict, frozen=True):
    kind: RenderKind = "auto"
    helm: Helm | None = None
    kustomize: Kustomize | None = None
    substitute: Substitute | None = None
    decryption: Decryption | None = None


class TargetRef(Strict, frozen=True):
    namespace: str = ""
    create_namespace: bool = False


class Suspend(Strict, frozen=True):
    by: str = ""
    reason: str = ""
    until: str = ""


class DependsOn(Strict, frozen=True):
    name: str
    namespace: str = ""
    ready: str = ""


class ApplySpec(Strict, frozen=True):
    conflicts: Literal["owned", "force", "fail"] = "owned"
    replace: Literal["never", "onImmutable"] = "never"
    concurrency: int = 16


class Prune(Strict, frozen=True):
    enabled: bool = True
    when: Literal["afterHealthy"] = "afterHealthy"
    propagation: Literal["Foreground", "Background", "Orphan"] = "Foreground"
    timeout: str = "5m"
    max_delete: int = 10
    max_delete_percent: int = 20
    allow_empty: bool = False
    deletion_policy: Literal["MirrorPrune", "Delete", "WaitForTermination", "Orphan"] = (
        "MirrorPrune"
    )

    @property
    def policy_at_end(self) -> str:
        """The deletion policy; MirrorPrune of a unit that prunes nothing is Orphan."""
        mirrored = self.deletion_policy == "MirrorPrune" and not self.enabled
        return "Orphan" if mirrored else self.deletion_policy


class DriftIgnore(Strict, frozen=True):
    kind: str = ""
    name: str = ""
    paths: tuple[str, ...] = ()
    manager: str = ""


class BackoffSpec(Strict, frozen=True):
    base: str = "2s"
    factor: int = 3
    max: str = "5m"
    reset_after: str = "10m"


class Drift(Strict, frozen=True):
    mode: Literal["correct", "detect", "off"] = "correct"
    delay: str = "0s"
    backoff: BackoffSpec = BackoffSpec()
    fight_threshold: int = 5
    ignore: tuple[DriftIgnore, ...] = ()


class HealthExpr(Strict, frozen=True):
    """Health of objects of one kind, as CEL over their fields; evaluated in the order of Flux."""

    kind: str
    current: str
    api_version: str = ""
    in_progress: str = ""
    failed: str = ""
    held: str = ""


class HealthSpec(Strict, frozen=True):
    timeout: str = "10m"
    no_progress_timeout: str = "5m"
    fail_fast: bool = True
    exprs: tuple[HealthExpr, ...] = ()


class Workloads(Strict, frozen=True):
    engine: Literal["own", "kruise", "auto"] = "auto"


class Window(Strict, frozen=True):
    """A sync window: commits are taken (allow) or not (deny) for `duration` from each time of
    `schedule` on. `manual`: a sync that a person requests is allowed nevertheless."""

    kind: Literal["allow", "deny"]
    schedule: str  # cron
    duration: str
    time_zone: str = "UTC"
    manual: bool = False


class UnitSpec(Strict, frozen=True):
    source_ref: Reference
    path: str = "."
    sink_ref: Reference | None = None
    render: Render = Render()
    target: TargetRef = TargetRef()
    service_account_name: str = ""
    interval: str = "10m"
    suspend: bool | Suspend = False
    depends_on: tuple[DependsOn, ...] = ()
    apply: ApplySpec = ApplySpec()
    prune: Prune = Prune()
    drift: Drift = Drift()
    health: HealthSpec = HealthSpec()
    workloads: Workloads = Workloads()
    approval: Literal["never", "risky", "always"] = "never"
    on_failure: Literal["hold", "revert-pr", "revert-push"] = "hold"
    windows: tuple[Window, ...] = ()
    promotion: Promotion | None = None
    images: tuple[FollowedImage, ...] = ()

    def suspended(self, now: datetime) -> datetime | None:
        """Until when the unit is left alone: FOREVER without an end, None when it is not."""
        if self.suspend is False:
            return None
        end = parse_time(self.suspend.until) if isinstance(self.suspend, Suspend) else None
        return None if end is not None and end <= now else end or FOREVER


class Signing(Strict, frozen=True):
    """The Secret holds `identity` (ssh), or `git.asc` and `passphrase` (gpg)."""

    format: Literal["ssh", "gpg"]
    secret_ref: Reference


class GitSink(Strict, frozen=True):
    source_ref: Reference
    secret_ref: Reference | None = None
    signing: Signing | None = None
    branch: str = "gitkruise/status/{cluster}"
    notes: str = "refs/notes/gitkruise/{cluster}"
    coalesce: str = "15s"
    detail: Literal["unit", "workload", "pods"] = "workload"


class CommitStatus(Strict, frozen=True):
    """The name of a unit's status, and above how many units of one commit they share one."""

    context: str = "gitkruise/{cluster}/{unit}"
    aggregate_above: int = 20


class PullRequests(Strict, frozen=True):
    """Feedback on an open pull request: a comment with the plan, and a status named `check`."""

    comment: Literal["plan", "none"] = "plan"
    check: str = "gitkruise/plan"


class Deployment(Strict, frozen=True):
    """The environment that commits of the Sink's units are shown to be deployed to."""

    environment: str


class ForgeSink(Strict, frozen=True):
    """A repository on a forge; `url` is that of a forge of one's own."""

    type: Literal["github", "gitlab", "gitea", "forgejo"]
    repo: str
    secret_ref: Reference
    url: str = ""
    commit_status: CommitStatus = CommitStatus()
    pull_request: PullRequests = PullRequests()
    deployment: Deployment | None = None


class Notify(Strict, frozen=True):
    """Messages about units whose `namespace/name` fits one of `units`, or about all.

    `template` is the JSON of a web hook with placeholders; "" sends our own document.
    """

    type: Literal["slack", "teams", "discord", "webhook"]
    secret_ref: Reference
    template: str = ""
    severity: Literal["info", "error"] = "error"
    units: tuple[str, ...] = ()


class SinkSpec(Strict, frozen=True):
    git: GitSink | None = None
    forge: ForgeSink | None = None
    notify: tuple[Notify, ...] = ()


class ReceiverSpec(Strict, frozen=True):
    type: Literal["github", "gitlab", "gitea", "forgejo", "bitbucket", "generic-hmac"]
    secret_ref: Reference
    sources: tuple[Reference, ...] = ()


class GitSource(msgspec.Struct, frozen=True):
    """`accepted` is the commit that a rewrite of its history may lead to, this once; `custom` says
    that the source is an object of the cluster."""

    namespace: str
    name: str
    spec: GitSourceSpec
    accepted: str = ""
    custom: bool = False


class Unit(msgspec.Struct, frozen=True):
    """`approved` is the hash of a deletion that the document's annotation agrees to; `custom`
    says that the unit is an object of the cluster, which stays until its end is seen to."""

    namespace: str
    name: str
    spec: UnitSpec
    origin: Document | None = None  # where it is written
    approved: str = ""
    custom: bool = False

    @property
    def id(self) -> str:
        """`namespace/name`: how records and people name a unit."""
        return f"{self.namespace}/{self.name}"

    @property
    def promoted(self) -> ObjectKey | None:
        """The workload that it promotes."""
        if self.spec.promotion is None:
            return None
        workload = self.spec.promotion.workload
        namespace = self.spec.target.namespace or self.namespace
        return ObjectKey(*workload.group_kind, namespace, workload.name)


class Sink(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    spec: SinkSpec
    origin: Document | None = None  # where it is written


class Receiver(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    spec: ReceiverSpec
    origin: Document | None = None  # where it is written


class Config(msgspec.Struct, frozen=True):
    """Everything one process follows; mappings are by `namespace/name`.

    `origin` is the absolute path of its file or directory, "" without one.
    """

    sources: dict[str, GitSource] = {}
    units: dict[str, Unit] = {}
    sinks: dict[str, Sink] = {}
    receivers: dict[str, Receiver] = {}
    origin: str = ""

    def source_of(self, unit: Unit) -> GitSource:
        return self.sources[resolve_reference(unit.spec.source_ref, unit.namespace)]

    def sink_of(self, unit: Unit) -> Sink | None:
        ref = unit.spec.sink_ref
        return self.sinks[resolve_reference(ref, unit.namespace)] if ref else None


UNIT_KIND: Final = GroupKind(OWN_GROUP, "Unit")
SPECS: Final[dict[str, type[Strict]]] = {
    "GitSource": GitSourceSpec,
    "Unit": UnitSpec,
    "Sink": SinkSpec,
    "Receiver": ReceiverSpec,
}

# The field of Config that has the documents of a kind.
FIELDS: Final = {
    "GitSource": "sources", "Unit": "units", "Sink": "sinks", "Receiver": "receivers",
}  # fmt: skip

DURATIONS: Final = {
    "GitSource": (("interval",), ("timeout",)),
    "Unit": (
        ("interval",),
        ("prune", "timeout"),
        ("drift", "delay"),
        ("drift", "backoff", "base"),
        ("drift", "backoff", "max"),
        ("drift", "backoff", "resetAfter"),
        ("health", "timeout"),
        ("health", "noProgressTimeout"),
    ),
    "Sink": (("git", "coalesce"),),
    "Receiver": (),
}
MAY_BE_ZERO: Final = frozenset({("prune", "timeout"), ("drift", "delay"), ("git", "coalesce")})


def resolve_reference(ref: Reference, namespace: str) -> str:
    """`namespace/name` of a reference made from `namespace`."""
    return f"{ref.namespace or namespace}/{ref.name}"


def decode_spec(doc: Obj) -> Any:
    """The spec Struct of one document. Raises msgspec.ValidationError with a `$.a.b` path."""
    return msgspec.convert(doc.get("spec") or {}, SPECS[doc["kind"]])


@cache  # rounds ask for the same few again and again
def duration(text: str) -> timedelta:
    """A duration field that has been checked at load."""
    return parse_duration(text)

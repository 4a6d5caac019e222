"""The cluster of a command, and the flags that choose it."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.console.command import GroupedOption, with_options
from gitkruise.cli.console.environment import Environment, read_environment
from gitkruise.cli.console.output import say_on_stderr
from gitkruise.cli.context.next_commands import finding_carrying
from gitkruise.errors import (
    ClusterFailed,
    DiagnosticError,
    Finding,
    Forbidden,
    GatewayTimeout,
    Unauthorized,
    Unavailable,
    UsageProblem,
    leaves,
)
from gitkruise.wire.primitives.names import CONFIG_FILE

if TYPE_CHECKING:
    from gitkruise.git.repository.repository import Repository
    from gitkruise.gitops.inspect.cluster_view import Survey
    from gitkruise.kube.client.transport import Transport
    from gitkruise.kube.system.clock import Clock
    from gitkruise.model.gitops.config import Config
    from gitkruise.wire.catalog.catalog import Catalog

_SANDBOX_CONTEXT = "gitkruise-sandbox"  # as sandbox.kubeconfig writes it
_CLUSTER_AS_A_WHOLE = (Unauthorized, Forbidden, Unavailable, GatewayTimeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """The cluster flags of a command line; "" for those that are not set."""

    kubeconfig: str = ""
    context: str = ""
    sandbox: bool = False
    name: str = ""

    @property
    def given(self) -> bool:
        return bool(self.kubeconfig or self.context or self.sandbox)

    @property
    def flags(self) -> str:
        """The flags again, as they are typed."""
        words = ["--sandbox"] if self.sandbox else []
        words += ["--kubeconfig", self.kubeconfig] if self.kubeconfig else []
        words += ["--context", self.context] if self.context else []
        words += ["--cluster", self.name] if self.name else []
        return shlex.join(words)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--kubeconfig, --context, --sandbox and --cluster, passed on as one `cluster`."""

    @wraps(command)
    def wrapped(
        *args: Any,
        kubeconfig: str,
        kube_context: str,
        sandbox: bool,
        cluster_name: str,
        **rest: Any,
    ) -> Any:
        if sandbox and (kubeconfig or kube_context):
            raise UsageProblem(
                Finding(code="GK7010", message="--sandbox excludes --kubeconfig and --context")
            )
        choice = ClusterChoice(
            kubeconfig=kubeconfig, context=kube_context, sandbox=sandbox, name=cluster_name
        )
        try:
            return command(*args, cluster=choice, **rest)
        except DiagnosticError as error:
            if not choice.given:
                raise
            findings = (finding_carrying(finding, choice.flags) for finding in error.findings)
            raise type(error)(*findings) from error

    return _flags(wrapped)


_option = partial(click.option, cls=GroupedOption, section="Cluster")
_flags = with_options(
    _option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="Kubeconfig file [default: as for kubectl].",
    ),
    _option(
        "--context",
        "kube_context",
        default="",
        help="Context of the kubeconfig [default: the current one].",
    ),
    _option("--sandbox", is_flag=True, help="Use the running embedded cluster."),
    _option(
        "--cluster",
        "cluster_name",
        default="",
        help="Cluster name used on the status branch [default: context name].",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenCluster:
    """A connected cluster, and its name in git.

    `home` is the namespace of the pod of this process, "" outside of the cluster. `embedded`: it is
    the embedded cluster, which starts no container.
    """

    transport: Transport
    clock: Clock
    name: str
    namespace: str
    home: str = ""
    flags: str = ""  # choose this cluster in another command
    embedded: bool = False


@asynccontextmanager
async def connected(
    choice: ClusterChoice,
    environment: Environment,
    *,
    unsent_s: float | None = None,
    if_forbidden: str = "",
) -> AsyncIterator[ChosenCluster]:
    """Open a transport to the chosen cluster and close it at the end.

    Without flags it is the cluster that kubectl uses. `unsent_s` as for HttpTransport,
    `if_forbidden` as for `cluster_failed`. Raises ClusterFailed GK410x.
    """
    from gitkruise.kube.auth.connection import find  # noqa: PLC0415  imports ssl

    file = choice.kubeconfig
    if choice.sandbox:
        file = str(sandbox_kubeconfig(environment))
    connection = find(environment.variables, kubeconfig_file=file, context=choice.context)
    # Imported after the kubeconfig is read: without one the command needs no HTTP client.
    from gitkruise.kube.client.connection_errors import cluster_failed  # noqa: PLC0415
    from gitkruise.kube.client.http import HttpTransport  # noqa: PLC0415  imports aiohttp
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415

    clock = SystemClock()
    flags = (choice if choice.given else replace(choice, context=connection.context)).flags
    name = choice.name or _safe(connection.context) or "in-cluster"
    try:
        async with HttpTransport(connection, clock, unsent_s=unsent_s) as transport:
            yield ChosenCluster(
                transport=transport,
                clock=clock,
                name=name,
                namespace=connection.namespace,
                home=connection.namespace if connection.inside else "",
                flags=flags,
                embedded=choice.sandbox or connection.context == _SANDBOX_CONTEXT,
            )
    except Exception as error:
        lost = next((e for e in leaves(error) if isinstance(e, _CLUSTER_AS_A_WHOLE)), None)
        if lost is None:
            raise
        raise cluster_failed(connection, lost, if_forbidden, flags=flags) from None


def _safe(context: str) -> str:
    """Return a context's name as part of a branch name; the embedded cluster's is `sandbox`."""
    if context == _SANDBOX_CONTEXT:
        return "sandbox"
    kept = "".join(c if c.isalnum() or c in "._-" else "-" for c in context)
    return kept.strip(".-").removesuffix(".lock").replace("..", "-")


def narrower(*, everywhere: bool) -> str:
    """Return the alternative to a request for all namespaces, "" for a request for one."""
    return "name a namespace with -n where this account has the right" if everywhere else ""


async def look(survey: Survey, *, dispensable: bool = False) -> None:
    """List everything once; standard error names what the account may not list.

    `dispensable`: the command goes on if that is everything. Raises ApiError.
    """
    try:
        await survey.look()
    except Forbidden:
        if not dispensable:
            raise
    if survey.unread:
        say_on_stderr(
            f"not known, as this account may not list them: {', '.join(sorted(survey.unread))}"
        )


def existing(path: str, what: str) -> Path:
    """Return a path that must exist. Raises UsageProblem GK7011."""
    found = Path(path)
    if not found.exists():
        raise UsageProblem(Finding(code="GK7011", message=f"{path}: no such {what}"))
    return found


def read_named(path: Path) -> bytes:
    """Return the content of a file that a user named. Raises UsageProblem GK7011."""
    from gitkruise.kube.system.private_files import read_regular  # noqa: PLC0415  start-up budget

    try:
        return read_regular(path)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        notes = (("unchanged", "nothing was written"), ("next", "name a readable regular file"))
        raise UsageProblem(Finding(code="GK7011", message=message, notes=notes)) from error


def sandbox_dir(environment: Environment) -> Path:
    """Return the state directory of the sandbox."""
    return environment.state_dir / "sandbox"


def sandbox_kubeconfig(environment: Environment) -> Path:
    """Return the kubeconfig of the running sandbox. Raises ClusterFailed GK4130."""
    from gitkruise.sandbox import background  # noqa: PLC0415  only to look at a process

    root = sandbox_dir(environment)
    if background.running(root) is None:
        raise ClusterFailed(
            Finding(
                code="GK4130",
                message="no sandbox is running",
                notes=(("state", str(root)), ("next", "gitkruise sandbox up --detach")),
            )
        )
    return root / "kubeconfig"


async def units_of_cluster(
    choice: ClusterChoice, repository: Repository, commit: str
) -> Config | None:
    """The units that follow a repository, where they are objects of the chosen cluster.

    None without a cluster, or where the commit has a configuration file, which counts. Raises
    UsageProblem GK7049, ClusterFailed and ApiError.
    """
    if not choice.given or _has_config(repository, commit):
        return None
    async with connected(choice, read_environment()) as chosen:
        return await units_following(chosen, repository)


def _has_config(repository: Repository, commit: str) -> bool:
    return repository.find(commit, CONFIG_FILE) is not None


async def units_and_kinds(
    choice: ClusterChoice, repository: Repository, commit: str, given: Config | None
) -> tuple[Config | None, Catalog]:
    """`units_of_cluster`, unless they are `given`, and `kinds_with`, over one connection: a plug-in
    for credentials takes a second or two each time.

    Raises as both do.
    """
    async with connected(choice, read_environment()) as chosen:
        if given is None and not _has_config(repository, commit):
            given = await units_following(chosen, repository)
        return given, await _kinds_of(chosen)


async def units_following(chosen: ChosenCluster, repository: Repository) -> Config | None:
    """The units of a cluster that follow a repository; None where the cluster has no Unit.

    Raises UsageProblem GK7049, ClusterFailed and ApiError.
    """
    from gitkruise.git.push.worktree import addresses  # noqa: PLC0415  runs git
    from gitkruise.gitops.config.cluster_units import cluster_config  # noqa: PLC0415  jsonschema
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415  as above

    here = addresses(repository.git_dir)
    return await cluster_config(chosen.transport, load_catalog(), here, chosen.name)


async def kinds_with(choice: ClusterChoice | None) -> Catalog:
    """The recorded kinds, and with a cluster those that only its definitions have, as far as they
    may be read.

    Raises ClusterFailed and ApiError.
    """
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415  as above

    if choice is None or not choice.given:
        return load_catalog()
    async with connected(choice, read_environment()) as chosen:
        return await _kinds_of(chosen)


async def _kinds_of(chosen: ChosenCluster) -> Catalog:
    from gitkruise.kube.client.discovery import definitions, with_foreign  # noqa: PLC0415  as above
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415  as above

    catalog = load_catalog()
    try:
        return with_foreign(catalog, await definitions(chosen.transport, catalog))
    except Forbidden:
        return catalog

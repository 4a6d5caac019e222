"""Which cluster a command talks to: the flags every such command shares."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.config import Environment
from gitkruise.cli.verb import GroupedOption
from gitkruise.errors import (
    Finding,
    Forbidden,
    GatewayTimeout,
    Unauthorized,
    Unavailable,
    UsageProblem,
    leaves,
)

if TYPE_CHECKING:
    from gitkruise.kube.clock import Clock
    from gitkruise.kube.http import HttpTransport

_SANDBOX_CONTEXT = "gitkruise-sandbox"  # as sandbox.kubeconfig writes it
_CLUSTER_AS_A_WHOLE = (Unauthorized, Forbidden, Unavailable, GatewayTimeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """What the user said about the cluster; "" where nothing was said."""

    kubeconfig: str = ""
    context: str = ""
    sandbox: bool = False
    name: str = ""

    @property
    def given(self) -> bool:
        return bool(self.kubeconfig or self.context or self.sandbox)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--kubeconfig, --context, --sandbox and --cluster, handed on as one `cluster`."""

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
        return command(*args, cluster=choice, **rest)

    decorated: Callable[..., Any] = wrapped
    for words, settings in reversed(_OPTIONS):
        option = click.option(*words, cls=GroupedOption, section="Cluster", **settings)
        decorated = option(decorated)
    return decorated


_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--kubeconfig",), {"default": "", "metavar": "FILE", "help": "As for kubectl."}),
    (("--context", "kube_context"), {"default": "", "help": "Context of the kubeconfig."}),
    (("--sandbox",), {"is_flag": True, "help": "Use the running embedded cluster."}),
    (
        ("--cluster", "cluster_name"),
        {"default": "", "help": "The cluster's name on status branches; else the context's."},
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A cluster to talk to: its connection, and the name it goes by in git.

    `home` is the namespace of the pod we run in, "" outside of the cluster.
    """

    transport: HttpTransport
    clock: Clock
    name: str
    namespace: str
    home: str = ""


@asynccontextmanager
async def connected(choice: ClusterChoice, environment: Environment) -> AsyncIterator[Chosen]:
    """A transport to the chosen cluster, closed at the end. Raises ClusterFailed GK410x.

    Without flags it is the cluster kubectl would use.
    """
    from gitkruise.kube.auth import find  # noqa: PLC0415  imports ssl and aiohttp
    from gitkruise.kube.clock import SystemClock  # noqa: PLC0415
    from gitkruise.kube.http import HttpTransport  # noqa: PLC0415
    from gitkruise.kube.unreachable import cluster_failed  # noqa: PLC0415

    file = choice.kubeconfig
    if choice.sandbox:
        from gitkruise.cli.sandbox import sandbox_kubeconfig  # noqa: PLC0415  only with --sandbox

        file = str(sandbox_kubeconfig(environment))
    connection = find(environment.variables, kubeconfig_file=file, context=choice.context)
    clock = SystemClock()
    transport = HttpTransport(connection, clock)
    name = choice.name or _safe(connection.context) or "in-cluster"
    try:
        yield Chosen(
            transport=transport,
            clock=clock,
            name=name,
            namespace=connection.namespace,
            home=connection.namespace if connection.inside else "",
        )
    except Exception as error:
        lost = next((e for e in leaves(error) if isinstance(e, _CLUSTER_AS_A_WHOLE)), None)
        if lost is None:
            raise
        raise cluster_failed(connection, lost) from None
    finally:
        await transport.close()


def _safe(context: str) -> str:
    """A context's name as part of a branch name; the embedded cluster's is `sandbox`."""
    if context == _SANDBOX_CONTEXT:
        return "sandbox"
    kept = "".join(c if c.isalnum() or c in "._-" else "-" for c in context)
    return kept.strip(".-").removesuffix(".lock").replace("..", "-")


def existing(path: str, what: str) -> Path:
    """A path that must be there. Raises UsageProblem GK7011."""
    found = Path(path)
    if not found.exists():
        raise UsageProblem(Finding(code="GK7011", message=f"there is no {what} at {path}"))
    return found

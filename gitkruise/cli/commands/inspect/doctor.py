"""gitkruise doctor: check git, configuration, cluster and access rights. Read-only."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.command import ExitCodesCommand, output_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import list_of, say, say_yaml
from gitkruise.cli.console.output import say_json as say_document
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.local_repository import checkout_of, config_instead
from gitkruise.errors import ClusterFailed, Finding, UsageProblem
from gitkruise.kube.system.lease_terms import SYNC_LEASE
from gitkruise.printable import many
from gitkruise.wire.primitives.names import CONFIG_FILE

if TYPE_CHECKING:
    from gitkruise.gitops.inspect.doctor_cluster import Check, Right
    from gitkruise.kube.client.transport import Transport

AREAS: Final = ("git", "config", "cluster", "rbac")
_LOOKS: Final = {"good": ("✓", "[ok]", "green"), "warning": ("!", "[!]", "yellow"),
                 "bad": ("✗", "[bad]", "red")}  # fmt: skip


@click.command(cls=ExitCodesCommand, exits=(1,), says="a check failed")
@click.argument("areas", nargs=-1, metavar="[git|config|cluster|rbac]…")
@click.option("--repo", default=".", show_default=True, help="Checkout to examine.")
@config_instead
@click.option(
    "--print-fix",
    is_flag=True,
    help="Print the access rights that gitkruise run needs and you lack, as manifests.",
)
@output_option
@cluster_options
@click.pass_context
def doctor(
    ctx: click.Context, /, areas: tuple[str, ...], cluster: ClusterChoice, **flags: Any
) -> None:
    """Check git, the configuration, the cluster and your access rights. Changes nothing.

    \b
    Examples:
      gitkruise doctor
      gitkruise doctor git config
      gitkruise doctor cluster --context prod
      gitkruise doctor rbac --print-fix | kubectl apply -f -
    """
    wrong = next((area for area in areas if area not in AREAS), "")
    if wrong:
        message = f'"{wrong}": unknown area; known: {", ".join(AREAS)}'
        notes = (("next", "gitkruise doctor; it checks all of them"),)
        raise UsageProblem(Finding(code="GK7014", message=message, notes=notes))
    if flags["print_fix"]:
        ctx.exit(asyncio.run(_print_fix(cluster)))
    style = Style.of(read_environment())
    checks = asyncio.run(_look(areas or AREAS, cluster, Path(flags["repo"]), flags["config_path"]))
    if flags["output"] == "json":
        say_document(list_of("CheckList", [_item(c) for c in checks]), style)
    else:
        say(doctor_lines(checks, style), style)
    ctx.exit(1 if any(c.verdict == "bad" for c in checks) else 0)


async def _look(
    areas: Sequence[str], choice: ClusterChoice, repo: Path, config: Path | None
) -> list[Check]:
    from gitkruise.git.repository.mirror import is_git_dir  # noqa: PLC0415  runs git
    from gitkruise.gitops.inspect.doctor_git import (  # noqa: PLC0415  imports the model
        config_checks,
        directory_checks,
        git_checks,
    )

    found: list[Check] = []
    variables = read_environment().variables
    top = checkout_of(repo)
    is_repository = (top / ".git").exists() or is_git_dir(top)
    if not is_repository and (config or (top / CONFIG_FILE).is_file()):
        found += directory_checks(top, config, areas)
    else:
        if "git" in areas:
            found += git_checks(repo, variables)
        if "config" in areas:
            found += config_checks(top, config, variables)
    if "cluster" in areas or "rbac" in areas:
        found += await _cluster(areas, choice)
    return found


async def _cluster(areas: Sequence[str], choice: ClusterChoice) -> list[Check]:
    from gitkruise.gitops.cluster.engine import LEASE_NAMESPACE, WORKLOADS_LEASE  # noqa: PLC0415  as above
    from gitkruise.gitops.inspect.doctor_cluster import (  # noqa: PLC0415
        bad,
        cluster_checks,
        good,
        missing_rights,
        rights_checks,
    )

    found: list[Check] = []
    try:
        async with connected(choice, read_environment()) as chosen:
            if "cluster" in areas:
                checks = await cluster_checks(
                    chosen.transport,
                    chosen.clock,
                    LEASE_NAMESPACE,
                    driving=WORKLOADS_LEASE,
                    applying=SYNC_LEASE,
                )
                found += [good("cluster", "server", f"{chosen.name} answers"), *checks]
            if "rbac" in areas:
                rights = await _needed(chosen.transport)
                missing = await missing_rights(chosen.transport, rights)
                found += rights_checks(rights, missing)
    except ClusterFailed as error:
        finding = error.findings[0]
        why = next((text for label, text in finding.notes if label == ""), "")
        text = f"{finding.code}: {finding.message}" + (f" ({why})" if why else "")
        next_ = dict(finding.notes).get("next", "gitkruise doctor")
        if next_.startswith("gitkruise doctor"):  # this is it
            next_ = "check address and credentials; kubectl version needs both, too"
        found.append(bad("cluster", "server", text, next_))
    return found


async def _needed(transport: Transport) -> Sequence[Right]:
    """Return the rights that the running controller needs; its Lease says how many shards."""
    from gitkruise.errors import Forbidden  # noqa: PLC0415  with the model
    from gitkruise.gitops.cluster.engine import LEASE_NAMESPACE  # noqa: PLC0415  imports the model
    from gitkruise.gitops.inspect.doctor_cluster import installed_shards, needed_rights  # noqa: PLC0415

    try:
        return needed_rights(await installed_shards(transport, LEASE_NAMESPACE, SYNC_LEASE))
    except Forbidden:  # the right to read that Lease is itself among those that are missing
        return needed_rights()


async def _print_fix(choice: ClusterChoice) -> int:
    from gitkruise.gitops.inspect.doctor_cluster import (  # noqa: PLC0415  imports the model
        granting,
        missing_rights,
        who_am_i,
    )

    async with connected(choice, read_environment()) as chosen:
        missing = await missing_rights(chosen.transport, await _needed(chosen.transport))
        user = await who_am_i(chosen.transport)
    style = Style.of(read_environment())
    documents = granting(missing, user) if missing else []
    for document in documents:
        say("---", style)
        say_yaml(document, style)
    return 0


def doctor_lines(checks: Sequence[Check], style: Style) -> Iterator[str]:
    """Yield a line for each check, the next step below those that failed, and a total."""

    for check in checks:
        glyph, plain, colour = _LOOKS[check.verdict]
        mark = style.paint(glyph if style.unicode else plain, colour)
        lead = f"{check.area:<8} {check.name:<11} "
        room = max(style.width - len(lead) - 6, 30)
        first, *more = textwrap.wrap(check.message, room, break_long_words=False) or [""]
        yield f"{mark} {lead}{first}"
        yield from (" " * (len(lead) + 2) + line for line in more)
        if check.next:
            yield f"{' ' * (len(lead) + 2)}next: {check.next}"
    failed = sum(c.verdict == "bad" for c in checks)
    warnings = sum(c.verdict == "warning" for c in checks)
    yield ""
    yield f"{many(len(checks), 'check')}: {failed} failed, {warnings} to look at"


def _item(check: Check) -> dict[str, str]:
    return {
        "area": check.area,
        "name": check.name,
        "verdict": str(check.verdict),
        "message": check.message,
        "next": check.next,
    }

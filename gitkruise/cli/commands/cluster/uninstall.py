"""gitkruise uninstall: remove the controller, its rights and its kinds; keep the workloads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.command import ExitCodesCommand, output_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import list_of, say, say_json, say_on_stderr
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import (
    ChosenCluster,
    ClusterChoice,
    cluster_options,
    connected,
)
from gitkruise.cli.context.confirm import confirm_removal
from gitkruise.printable import totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gitkruise.gitops.inspect.doctor_cluster import Right
    from gitkruise.gitops.install.uninstall_plan import Uninstalled, UninstallOptions, UninstallPlan
    from gitkruise.gitops.install.uninstaller import Registration
    from gitkruise.wire.primitives.names import ObjectKey

IN_GIT: Final = "git is unchanged: manifests, status branches and the history of records stay there"
LEFT_RUNNING: Final = "objects that units applied stay with their pods, labels and annotations"
RIGHTS_SHOWN: Final = 6


@click.command(cls=ExitCodesCommand, exits=(5, 6))
@click.option(
    "--crds", is_flag=True,
    help="Also remove installed CRDs of workloads; refused while one has objects.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List what would be removed; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Remove without asking.")
@click.option("--namespace", "-n", default="gitkruise-system", show_default=True,
              help="Namespace of the controller.")  # fmt: skip
@output_option
@cluster_options
def uninstall(
    cluster: ClusterChoice, namespace: str, output: str, *, crds: bool, dry_run: bool, yes: bool
) -> None:
    """Remove gitkruise from a cluster and keep the workloads.

    \b
    Examples:
      gitkruise uninstall --dry-run
      gitkruise uninstall --context prod
      gitkruise uninstall --yes --crds

    Removes webhook configurations, the controller, its rights, and the sources, units, sinks and
    receivers with their CRDs. Objects that units applied, CloneSets and pods keep running; the
    output lists what stays. A repeated command continues after an interruption.
    """
    from gitkruise.gitops.install.uninstall_plan import UninstallOptions  # noqa: PLC0415  imports the schemas

    options = UninstallOptions(namespace=namespace, crds=crds)
    asyncio.run(_uninstall(cluster, options, output, dry_run=dry_run, yes=yes))


async def _uninstall(
    choice: ClusterChoice, options: UninstallOptions, output: str, *, dry_run: bool, yes: bool
) -> None:
    """Plan, ask, remove, report."""
    from gitkruise.gitops.install.uninstall_plan import UninstallPlanner  # noqa: PLC0415
    from gitkruise.gitops.install.uninstaller import Uninstaller  # noqa: PLC0415
    from gitkruise.gitops.resources.declared import FINALIZER  # noqa: PLC0415
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    style = Style.of(read_environment())
    async with connected(choice, read_environment()) as chosen:
        options = await _with_driver(options, chosen)
        planner = UninstallPlanner(chosen.transport, load_catalog(), options)
        registration = _registration(chosen, options.namespace)
        plan = await planner.plan()
        registered = await registration.registered()
        planned = _planned(plan, registered)
        if dry_run:
            _show(planned, output, style)
            say_on_stderr(["dry run: nothing was removed", *_closing(planned)])
            return
        await _check_rights(chosen, plan, registered)
        if not yes:
            say_on_stderr([line_of(item, planned=True) for item in planned])
            confirm_removal(chosen.name)
        uninstaller = Uninstaller(
            chosen.transport, chosen.clock, planner, registration, finalizer=FINALIZER,
            on_change=lambda item: None if output == "json" else say(line_of(item), style),
        )  # fmt: skip
        done = await uninstaller.uninstall(plan)
    if output == "json":
        _show(done, output, style)
    else:
        say([line_of(item) for item in plan.stays], style)
    say_on_stderr(_closing(done))


async def _with_driver(options: UninstallOptions, chosen: ChosenCluster) -> UninstallOptions:
    """Options with the answer to who drives the workloads afterwards."""
    from dataclasses import replace  # noqa: PLC0415  start-up budget

    from gitkruise.gitops.cluster.engine import kruise_is_at_work  # noqa: PLC0415

    if chosen.embedded:
        return replace(options, driver="the embedded cluster drives them")
    if await kruise_is_at_work(chosen.transport, chosen.clock):
        return replace(options, driver="OpenKruise's manager drives them")
    return options


def _registration(chosen: ChosenCluster, namespace: str) -> Registration:
    from gitkruise.cli.commands.cluster.webhook import SERVICE  # noqa: PLC0415
    from gitkruise.webhook.registration import Address, Registrar  # noqa: PLC0415

    return Registrar(chosen.transport, Address(namespace=namespace, service=SERVICE))


async def _check_rights(
    chosen: ChosenCluster, plan: UninstallPlan, registered: Sequence[ObjectKey]
) -> None:
    """Ask for every right before the first change. Raises ClusterFailed GK4507."""
    from gitkruise.gitops.inspect.doctor_cluster import Right  # noqa: PLC0415
    from gitkruise.kube.client.discovery import CRDS  # noqa: PLC0415
    from gitkruise.webhook.registration import MUTATING, VALIDATING  # noqa: PLC0415

    needed = [
        Right(target.ref.group, target.ref.plural, verb, target.key.namespace, target.key.name)
        for target in plan.goes
        for verb in (("patch", "delete") if target in plan.custom else ("delete",))
    ]
    refs = {ref.plural: ref for ref in (MUTATING, VALIDATING)}
    for key in registered:
        ref = refs.get(f"{key.kind.lower()}s", CRDS)
        verb = "patch" if ref == CRDS else "delete"
        needed.append(Right(ref.group, ref.plural, verb, "", key.name))
    await require_rights(chosen, needed, "uninstall")


async def require_rights(chosen: ChosenCluster, needed: Sequence[Right], command: str) -> None:
    """Ask for every right before `command` changes anything. Raises ClusterFailed GK4507."""
    from gitkruise.errors import ClusterFailed, Finding  # noqa: PLC0415
    from gitkruise.gitops.inspect.doctor_cluster import missing_rights  # noqa: PLC0415
    from gitkruise.printable import listing  # noqa: PLC0415

    missing = await missing_rights(chosen.transport, list(dict.fromkeys(needed))) if needed else []
    if missing:
        raise ClusterFailed(
            Finding(
                code="GK4507",
                message=f"these credentials lack rights: {listing(missing, RIGHTS_SHOWN)}",
                notes=(
                    ("unchanged", "everything: nothing was changed or removed"),
                    ("next", f"gitkruise {command} as a cluster administrator"),
                ),
            )
        )


# Showing ------------------------------------------------------------------------------------------


def _planned(plan: UninstallPlan, registered: Sequence[ObjectKey]) -> list[Uninstalled]:
    """The outcome if everything goes well."""
    from gitkruise.gitops.install.installer import CRD  # noqa: PLC0415
    from gitkruise.gitops.install.uninstall_plan import UninstallChange, Uninstalled  # noqa: PLC0415

    gone, other = UninstallChange.REMOVED, UninstallChange.CONFIGURED
    return [
        *(Uninstalled(key=k, change=other if k.group_kind == CRD else gone) for k in registered),
        *(Uninstalled(key=target.key, change=gone) for target in plan.goes),
        *plan.stays,
    ]


def _show(items: Sequence[Uninstalled], output: str, style: Style) -> None:
    if output == "json":
        say_json(list_of("UninstallList", [removal_obj(item) for item in items]), style)
    else:
        say([line_of(item, planned=True) for item in items], style)


def line_of(item: Uninstalled, *, planned: bool = False) -> str:
    """`stays       Namespace gitkruise-system: gitkruise did not install …; to remove: …`."""
    word = {"removed": "to remove", "configured": "to change"}.get(item.change, item.change)
    detail = item.why + (f"; to remove it: {item.next}" if item.next else "")
    return f"{word if planned else item.change:<11} {item.key}" + (f": {detail}" if detail else "")


def removal_obj(item: Uninstalled) -> dict[str, Any]:
    """Outcome for one object, for JSON."""
    out: dict[str, Any] = {"object": item.key._asdict(), "change": str(item.change)}
    out |= {"reason": item.why} if item.why else {}
    out |= {"next": item.next} if item.next else {}
    return out | ({"objects": [key._asdict() for key in item.objects]} if item.objects else {})


def _closing(items: Sequence[Uninstalled]) -> list[str]:
    return [
        totals(item.change for item in items) or "gitkruise is not installed on this cluster",
        LEFT_RUNNING,
        IN_GIT,
    ]

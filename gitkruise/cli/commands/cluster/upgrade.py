"""gitkruise upgrade: show what this version changes on a cluster, apply it, migrate objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise import __version__
from gitkruise.cli.commands.cluster.install import installed_obj, line_of
from gitkruise.cli.commands.cluster.uninstall import require_rights
from gitkruise.cli.console.command import ExitCodesCommand, duration_type, output_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import API_VERSION, say, say_json, say_on_stderr
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.confirm import confirm_change
from gitkruise.printable import many, totals

if TYPE_CHECKING:
    from gitkruise.gitops.install.installer import Installed
    from gitkruise.gitops.install.upgrade_plan import StorageMigration, UpgradeOptions, UpgradePlan
    from gitkruise.gitops.install.upgrader import Outcome
    from gitkruise.model.gitops.change import FieldChange

FIELDS_SHOWN: Final = 8  # of one object; -o json has all
ENTRY_MAX: Final = 160  # characters of an entry of a list
LEFT_RUNNING: Final = "objects of units and their pods are unchanged"
_PLANNED: Final = {
    "created": "to create", "configured": "to change", "removed": "to remove",
}  # fmt: skip


@click.command(cls=ExitCodesCommand, exits=(5, 6))
@click.option(
    "--dry-run", is_flag=True, help="Send dry runs to the API server and show the changes."
)
@click.option("-y", "--yes", is_flag=True, help="Upgrade without asking.")
@click.option("--crds", "crds_only", is_flag=True,
              help="Upgrade only the CustomResourceDefinitions.")  # fmt: skip
@click.option("--namespace", "-n", default="gitkruise-system", show_default=True,
              help="Namespace of the controller.")  # fmt: skip
@click.option("--image", default="", metavar="IMAGE",
              help="Image of the controller [default: the installed one, with this version "
              "as its tag].")  # fmt: skip
@click.option("--take-over", is_flag=True,
              help="Overwrite OpenKruise's CRDs and fields that other managers own.")  # fmt: skip
@click.option("--downgrade", is_flag=True, help="Permit a version older than the installed one.")
@click.option("--timeout", default="5m", show_default=True, callback=duration_type,
              metavar="DURATION",
              help="How long to wait until the new pods are available.")  # fmt: skip
@output_option
@cluster_options
def upgrade(
    cluster: ClusterChoice, output: str, timeout: str, *, dry_run: bool, yes: bool, **options: Any
) -> None:
    """Upgrade the installed gitkruise to this version.

    \b
    Examples:
      gitkruise upgrade --dry-run
      gitkruise upgrade --context prod
      gitkruise upgrade --yes --image registry.example.com/gitkruise:1.2.0

    Shows created, changed and removed objects with their fields, applies CRDs, rights and
    processes in this order, waits for the new pods, and rewrites objects that are stored in an old
    version of their CRD. Workloads keep running; a rollout continues with the new controller.
    """
    from gitkruise.gitops.install.upgrade_plan import UpgradeOptions  # noqa: PLC0415  imports the schemas

    chosen = UpgradeOptions(**options)
    asyncio.run(_upgrade(cluster, chosen, output, within=timeout, dry_run=dry_run, yes=yes))


async def _upgrade(
    choice: ClusterChoice, options: UpgradeOptions, output: str, *,
    within: str, dry_run: bool, yes: bool,
) -> None:  # fmt: skip
    """Plan, show, ask, apply, report."""
    from gitkruise.gitops.install.upgrade_plan import UpgradePlanner  # noqa: PLC0415
    from gitkruise.gitops.install.upgrader import Upgrader  # noqa: PLC0415
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415
    from gitkruise.wire.primitives.times import parse_duration  # noqa: PLC0415

    style = Style.of(read_environment())
    async with connected(choice, read_environment()) as chosen:
        planner = UpgradePlanner(chosen.transport, load_catalog(), chosen.clock, options)
        plan = await planner.plan()
        planned = _planned(plan)
        lines = [line for item in planned for line in lines_of(item, planned=True)]
        if dry_run or plan.empty:
            if output == "json":
                say_json(_as_obj(plan, planned, dry_run=dry_run), style)
            else:
                say(lines, style)
            empty = f"{_towards(plan)}: nothing to change"
            say_on_stderr(
                empty if plan.empty else f"dry run, nothing was written: {_summary(plan, planned)}"
            )
            return
        await require_rights(chosen, _needed(plan), "upgrade")
        say_on_stderr(lines)
        if not yes:
            confirm_change(
                "upgrade", f"Upgrade gitkruise on cluster {chosen.name}?",
                unchanged="everything: nothing was changed", preview="--dry-run",
            )  # fmt: skip
        upgrader = Upgrader(
            chosen.transport, load_catalog(), chosen.clock, within=parse_duration(within),
            on_change=lambda item: None if output == "json" else say(lines_of(item), style),
        )  # fmt: skip
        done = await upgrader.upgrade(plan)
    if output == "json":
        say_json(_as_obj(plan, done, dry_run=False), style)
    say_on_stderr([_summary(plan, done), LEFT_RUNNING])


def _planned(plan: UpgradePlan) -> list[Outcome]:
    """The outcome if everything goes well."""
    from gitkruise.gitops.install.upgrader import removal  # noqa: PLC0415

    return [*plan.changes, *map(removal, plan.removals), *plan.migrations]


def _needed(plan: UpgradePlan) -> list[Any]:
    """Rights that no dry run has asked for."""
    from gitkruise.gitops.inspect.doctor_cluster import Right  # noqa: PLC0415
    from gitkruise.kube.client.discovery import CRDS  # noqa: PLC0415

    needed = [
        Right(target.ref.group, target.ref.plural, "delete", target.key.namespace, target.key.name)
        for target in plan.removals
    ]
    for migration in plan.migrations:
        if not migration.blocked:
            ref = migration.ref
            needed += [Right(ref.group, ref.plural, verb) for verb in ("list", "patch")]
            needed.append(Right(CRDS.group, f"{CRDS.plural}/status", "patch", "", migration.name))
    return needed


# Showing ------------------------------------------------------------------------------------------


def lines_of(item: Outcome, *, planned: bool = False) -> Iterator[str]:
    """Lines of one object; one that is unchanged has none.

    `configured  Deployment gitkruise-system/gitkruise`, and below it each changed field.
    """
    from gitkruise.gitops.install.installer import InstallChange, Installed  # noqa: PLC0415

    if not isinstance(item, Installed):
        yield _migration_line(item, planned=planned)
        return
    if item.change is InstallChange.UNCHANGED:
        return
    word = _PLANNED.get(item.change, item.change) if planned else str(item.change)
    if item.change is InstallChange.CONFIGURED:
        yield f"{word:<11} {item.key}"
        yield from (f"            {line}" for line in _fields(item) if planned)
        return
    yield word.ljust(11) + line_of(item)[11:]


def _fields(item: Installed) -> Iterator[str]:
    """Lines of the changed fields. Versions of a definition are long, and have no order."""
    versions = [change for change in item.changes if change.path[:2] == ("spec", "versions")]
    others = [change for change in item.changes if change not in versions]
    if versions:
        yield f"spec.versions: {many(len(versions), 'difference')}"
    yield from (line for change in others[:FIELDS_SHOWN] for line in _field(change))
    if len(others) > FIELDS_SHOWN:
        yield many(len(others) - FIELDS_SHOWN, "more field")


def _field(change: FieldChange) -> Iterator[str]:
    """`spec.replicas: 1 → 2`; below the path of a list its entries that go and come."""
    from gitkruise.planner.report.summary import shown  # noqa: PLC0415

    path, before, after = ".".join(map(str, change.path)), change.before, change.after
    if not isinstance(before, list) or not isinstance(after, list):
        yield f"{path}: {shown(before)} → {shown(after)}"
        return
    yield f"{path}:"
    for sign, entries, others in (("-", before, after), ("+", after, before)):
        yield from (f"  {sign} {_entry(entry)}" for entry in entries if entry not in others)


def _entry(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= ENTRY_MAX else text[: ENTRY_MAX - 1] + "…"


def _migration_line(item: StorageMigration, *, planned: bool) -> str:
    what = f"CustomResourceDefinition {item.name}"
    moved = f"{many(item.objects, 'object')} stored in {', '.join(item.stale)}"
    if item.blocked:
        return f"left alone  {what}: {moved}; {item.blocked}"
    return f"{'to migrate' if planned else 'migrated':<11} {what}: {moved} to {item.storage}"


def _as_obj(plan: UpgradePlan, items: Sequence[Outcome], *, dry_run: bool) -> dict[str, Any]:
    from gitkruise.gitops.install.installer import Installed  # noqa: PLC0415

    objects = [item for item in items if isinstance(item, Installed)]
    migrations = [item for item in items if not isinstance(item, Installed)]
    return {
        "apiVersion": API_VERSION,
        "kind": "Upgrade",
        "from": plan.installed,
        "to": __version__,
        "dryRun": dry_run,
        "items": [installed_obj(item) for item in objects],
        "migrations": [
            {
                "definition": item.name, "from": list(item.stale), "to": item.storage,
                "objects": item.objects, **({"blocked": item.blocked} if item.blocked else {}),
            }
            for item in migrations
        ],
    }  # fmt: skip


def _summary(plan: UpgradePlan, items: Sequence[Outcome]) -> str:
    from gitkruise.gitops.install.installer import Installed  # noqa: PLC0415

    done = (item for item in items if isinstance(item, Installed) or not item.blocked)
    words = (item.change if isinstance(item, Installed) else "migrated" for item in done)
    return f"{_towards(plan)}: {totals(words)}"


def _towards(plan: UpgradePlan) -> str:
    known = plan.installed and plan.installed != __version__
    return f"gitkruise {plan.installed} → {__version__}" if known else f"gitkruise {__version__}"

"""gitkruise images: list images that follow a registry, and commit newer tags."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.commands.change.actions import check_way, commit_options
from gitkruise.cli.console.command import ExitCodesCommand
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.findings import print_findings
from gitkruise.cli.console.output import list_of, say, say_json
from gitkruise.cli.console.signals import result_of
from gitkruise.cli.console.style import Style
from gitkruise.cli.console.tables import Column, fit_table
from gitkruise.cli.context.cluster import (
    ClusterChoice,
    cluster_options,
    connected,
    kinds_with,
)
from gitkruise.errors import Finding, Severity, SourceFailed, UsageProblem

if TYPE_CHECKING:
    from gitkruise.cli.context.commit_draft import CommitDraft, CommitOptions
    from gitkruise.git.push.user_push import Branch, Publisher
    from gitkruise.git.repository.repository import Repository
    from gitkruise.gitops.actions.image_update import ImageUpdate
    from gitkruise.gitops.actions.target import BranchState
    from gitkruise.gitops.images.survey import ImageState
    from gitkruise.kube.client.transport import Transport
    from gitkruise.model.gitops.config import Unit

_HEADS: Final = (
    Column(name="UNIT", least=10),
    Column(name="IMAGE", least=16),
    Column(name="GIT", least=8),
    Column(name="NEWEST", least=8),
    Column(name="POLICY", drop=2, least=8),
    Column(name="TAGS", drop=1),
    Column(name="SEEN", drop=3),
    Column(name="NOTE", prose=True, least=12),
)
_UPDATE_ONLY: Final = ("directly", "pr", "branch", "message", "dry_run", "yes", "force", "wait")


@click.command(
    cls=ExitCodesCommand, exits=(1, 3, 4, 5, 6),
    says="with --update --wait: the commit was rejected, or its rollout is stuck",
)  # fmt: skip
@click.argument("unit", default="", metavar="[UNIT]")
@click.option("-n", "--namespace", default="", help="Namespace of the unit [default: all].")
@click.option("--update", is_flag=True, help="Commit the newest tags of one unit.")
@commit_options
@cluster_options
@click.pass_context
def images(ctx: click.Context, /, unit: str, cluster: ClusterChoice, **flags: Any) -> None:
    """List images that follow a registry: their tags in git, and the newest by their policy.

    \b
    Examples:
      gitkruise images
      gitkruise images shop/web -o json
      gitkruise images web --update --print
      gitkruise images web --update --pr --sandbox

    The images are those of spec.images of each unit that follows a branch. Each registry is
    asked; a Secret of an image is read in the cluster that --sandbox, --context or --kubeconfig
    names. With --update, one commit sets all newer tags of the unit, in the places that set them;
    the options --commit to --wait apply to it.
    """
    from gitkruise.cli.context.commit_draft import CommitOptions  # noqa: PLC0415  imports the model

    update, namespace = flags.pop("update"), flags.pop("namespace")
    given = [name for name in _UPDATE_ONLY if flags[name]]
    if given and not update:
        option = next(p for p in ctx.command.params if p.name == given[0])
        message = f"{option.opts[0]} applies to images --update"
        raise UsageProblem(Finding(code="GK7010", message=message))
    check_way(flags)
    options = CommitOptions(cluster=cluster, **flags)
    ctx.exit(_update(options, unit, namespace) if update else _show(options, unit, namespace))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Followed:
    """The images of a unit, on the branch that it follows."""

    unit: Unit
    branch: Branch
    state: BranchState
    images: tuple[ImageState, ...]
    warnings: tuple[Finding, ...]  # about charts


async def _followed(
    publisher: Publisher, repository: Repository, options: CommitOptions, name: str,
    namespace: str, *, alone: bool,
) -> list[_Followed]:  # fmt: skip
    """Return the units that are meant, with their images. Raises UsageProblem GK7040 for none, and
    for several if one must be `alone`."""
    from gitkruise.cli.context.charts import fetch_charts  # noqa: PLC0415
    from gitkruise.cli.context.commit_draft import (  # noqa: PLC0415  imports the model
        branch_states,
        config_of,
        given_config,
    )
    from gitkruise.gitops.actions.target import objects_by_unit  # noqa: PLC0415  imports the model
    from gitkruise.gitops.images.survey import image_states  # noqa: PLC0415  imports aiohttp
    from gitkruise.gitops.images.tags import TagReader  # noqa: PLC0415  as above
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415

    given = await given_config(repository, options)
    config = config_of(repository, given, "HEAD")
    old = await fetch_charts(config, options.cluster if options.cluster.given else None)
    kinds = await kinds_with(options.cluster)
    found = [
        (unit, branch, state)
        for branch, state in branch_states(publisher, repository, config, given, kinds)
        for unit in state.config.units.values()
        if unit.spec.images
        and name in {"", unit.id, unit.name}
        and namespace in {"", unit.namespace}
    ]
    if not found or (alone and len(found) > 1):
        raise _not_one(name, namespace, [unit.id for unit, *_ in found])
    secret = any(image.secret_ref for unit, *_ in found for image in unit.spec.images)
    async with AsyncExitStack() as stack:
        transport: Transport | None = None
        if secret and options.cluster.given:
            chosen = connected(options.cluster, read_environment())
            transport = (await stack.enter_async_context(chosen)).transport
        return [
            _Followed(
                unit=unit,
                branch=branch,
                state=state,
                images=await image_states(
                    unit,
                    [d for owner, d in objects_by_unit(state.side) if owner == unit],
                    TagReader(unit=unit, transport=transport, clock=SystemClock()),
                ),
                warnings=old,
            )
            for unit, branch, state in found
        ]


def _not_one(name: str, namespace: str, found: Sequence[str]) -> UsageProblem:
    """Return GK7040 for a name that means no unit with images, or several."""
    where = f" in namespace {namespace}" if namespace else ""
    notes = (("next", "write spec.images of the unit: gitkruise explain unit.spec.images"),)
    if found:
        message = f"several units{where} have images: {', '.join(found)}"
        notes = (("next", "name one of them"),)
    else:
        who = f"unit {name}" if name else "unit"
        message = f"there is no {who}{where} that follows a branch and has images"
    return UsageProblem(Finding(code="GK7040", message=message, notes=notes))


# Showing ------------------------------------------------------------------------------------------


def _show(options: CommitOptions, name: str, namespace: str) -> int:
    """List the images; return the exit code, that of a registry that cannot be read."""
    from gitkruise.cli.context.commit_draft import publishing  # noqa: PLC0415  imports the model

    with publishing(options.repo) as (publisher, repository):
        found = result_of(_followed(publisher, repository, options, name, namespace, alone=False))
    rows = [image for one in found for image in one.images]
    unread = [image.error for image in rows if image.error is not None]
    style = Style.of(read_environment())
    if options.output == "json":
        say_json(list_of("ImageList", map(_image_obj, rows)), style)
    else:
        say(fit_table(_HEADS, [*map(_cells, rows)], style.width), style)
        print_findings(unread)
    return 4 if unread else 0


def _cells(image: ImageState) -> tuple[str, ...]:
    from gitkruise.wire.primitives.times import format_time  # noqa: PLC0415

    seen = image.seen
    return (
        image.unit.id,
        image.image.repository,
        ", ".join(tag or "no tag" for tag in image.current) or "-",
        image.chosen.tag or "-",
        str(image.image.policy),
        str(seen.count) if seen else "-",
        format_time(seen.at) if seen else "-",
        _note(image),
    )


def _note(image: ImageState) -> str:
    if image.error is not None:
        return image.error.code
    if not image.references:
        return "no object of the unit has it"
    if not image.chosen.tag:
        return image.chosen.why
    if image.due:
        return "newer"
    if any(one.pinned for one in image.references):
        return "a digest is left alone"
    return "" if image.current == (image.chosen.tag,) else "the tag in git comes after the newest"


def _image_obj(image: ImageState) -> dict[str, Any]:
    from gitkruise.cli.console.findings import finding_obj  # noqa: PLC0415
    from gitkruise.wire.primitives.times import format_time  # noqa: PLC0415

    seen = image.seen
    return {
        "unit": image.unit.id,
        "repository": image.image.repository,
        "policy": str(image.image.policy),
        "write": image.image.write,
        "references": [
            {
                "object": str(one.key),
                "field": ".".join(map(str, one.path)),
                "image": one.reference,
            }
            for one in image.references
        ],
        "newest": image.chosen.tag,
        "newer": bool(image.due),
        "note": _note(image),
        "tags": seen.count if seen else 0,
        "seen": format_time(seen.at) if seen else "",
        "findings": [finding_obj(image.error)] if image.error else [],
    }


# Updating -----------------------------------------------------------------------------------------


def _update(options: CommitOptions, name: str, namespace: str) -> int:
    """Commit the newest tags of a unit; return the exit code."""
    from gitkruise.cli.context.commit_draft import commit  # noqa: PLC0415  imports the model
    from gitkruise.gitops.actions.image_update import UPDATE  # noqa: PLC0415

    return commit(options, UPDATE, partial(_draft, options, name, namespace))


async def _draft(
    options: CommitOptions, name: str, namespace: str, publisher: Publisher, repository: Repository
) -> CommitDraft:
    from gitkruise.cli.context.commit_draft import drafted  # noqa: PLC0415
    from gitkruise.gitops.actions.image_update import compute_update  # noqa: PLC0415
    from gitkruise.gitops.actions.proof import check_images, check_reached  # noqa: PLC0415
    from gitkruise.gitops.preview.changes import changes_between  # noqa: PLC0415
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    (one,) = await _followed(publisher, repository, options, name, namespace, alone=True)
    unread = [image.error for image in one.images if image.error is not None]
    if unread and not any(image.due for image in one.images):
        raise SourceFailed(*unread)
    print_findings([replace(finding, severity=Severity.WARNING) for finding in unread])
    tip = one.state.side.commit.id
    update = compute_update(repository, tip, one.unit, one.images)
    draft = await drafted(
        publisher, repository, options, _content(repository, options, update, tip),
        branch=one.branch, state=one.state, earlier=lambda _: (),
    )  # fmt: skip
    draft = replace(draft, base=replace(draft.base, warnings=(*one.warnings, *draft.base.warnings)))
    changes = changes_between(draft.base.objects, draft.after.objects, load_catalog())
    check_reached(next(iter(update.files)), update.fields, one.unit, changes)
    if not options.force:
        check_images(update, draft.preview)
    return draft


def _content(repository: Repository, options: CommitOptions, update: ImageUpdate, tip: str) -> Any:
    from gitkruise.cli.context.commit_draft import CommitContent  # noqa: PLC0415
    from gitkruise.gitops.actions.image_update import UPDATE, updates_images_of  # noqa: PLC0415

    return CommitContent(
        verb=UPDATE,
        unit=update.unit,
        files=update.files,
        message=update.message(options.message),
        why=update.why,
        branch=f"{UPDATE}-{update.unit.name}-{tip[:7]}",
        details={
            "images": [
                {"repository": one.repository, "before": list(one.before), "after": one.after}
                for one in update.images
            ],
            "files": list(update.files),
        },
        same_action=lambda commit: updates_images_of(repository, commit, update.unit),
    )

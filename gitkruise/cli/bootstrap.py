"""gitkruise bootstrap: the controller and what it follows, committed, and put on the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.asking import confirm_push
from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import ClusterChoice, cluster_options, connected
from gitkruise.cli.install import installed_obj, line_of
from gitkruise.cli.output import API_VERSION, say, say_json, tell
from gitkruise.cli.style import Style
from gitkruise.cli.verb import Verb

if TYPE_CHECKING:
    from gitkruise.cli.connect import Chosen
    from gitkruise.git.publish import Branch, Publisher
    from gitkruise.git.repo import Repository
    from gitkruise.gitops.bootstrap import Place
    from gitkruise.gitops.install import Installed, Installer, Wishes
    from gitkruise.wire.names import Obj


@click.command(cls=Verb, exits=(4, 5, 6, 130))
@click.argument("path", metavar="PATH")
@click.option("--repo", default=".", show_default=True, help="Checkout or bare repository.")
@click.option("--branch", default="", metavar="NAME", help="That it follows; else the current.")
@click.option("--url", default="", metavar="URL",
              help="The repository as the controller reaches it; else the remote's.")  # fmt: skip
@click.option("--secret", default="", metavar="NAME",
              help="The Secret with its credentials, in the controller's namespace.")  # fmt: skip
@click.option("--namespace", "-n", default="gitkruise-system", show_default=True,
              help="Where the controller lives.")  # fmt: skip
@click.option("--image", default="", metavar="IMAGE", help="The controller's image.")
@click.option("--webhooks", is_flag=True,
              help="Also admission and conversion, for clusters without OpenKruise.")  # fmt: skip
@click.option("--print", "--dry-run", "dry_run", is_flag=True, help="Show what would be done.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before it is pushed.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@cluster_options
def bootstrap(path: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Install from a repository that the cluster follows from then on, itself included.

    \b
    Examples:
      gitkruise bootstrap clusters/prod --context prod --secret deploy-key
      gitkruise bootstrap clusters/prod --context prod --print
      gitkruise bootstrap clusters/dev --sandbox

    PATH/gitkruise/install.yaml brings the controller, follow.yaml beside it makes it follow PATH.
    Said again it changes nothing; said by a newer version, it upgrades by a commit. Whoever may
    push to PATH rules the cluster, as with Flux.
    """
    asyncio.run(_bootstrap(_Asked(path=path, cluster=cluster, **flags)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    path: str
    repo: str
    branch: str
    url: str
    secret: str
    namespace: str
    image: str
    webhooks: bool
    dry_run: bool
    yes: bool
    output: str
    cluster: ClusterChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """What is to be done: files to commit, and objects to put there, which is nothing where the
    cluster follows the place already: it brings them itself."""

    place: Place
    branch: Branch
    files: Mapping[str, bytes]
    objects: tuple[Obj, ...]


async def _bootstrap(asked: _Asked) -> None:
    from gitkruise.git.publish import Publisher  # noqa: PLC0415  not for --help
    from gitkruise.git.repo import Repository  # noqa: PLC0415

    environment = read_environment()
    publisher = Publisher(Path(asked.repo), environment.variables)
    with Repository.open(str(publisher.folder)) as repository:
        async with connected(asked.cluster, environment) as chosen:
            draft = await _draft(asked, (publisher, repository), chosen)
            _show(asked, draft)
            commit = _published(asked, draft, (publisher, repository))
            put = () if asked.dry_run else draft.objects
            done = await _installer(asked, chosen).install(put)
            _say(asked, draft, commit, done)


async def _draft(asked: _Asked, at: tuple[Publisher, Repository], chosen: Chosen) -> _Draft:
    from gitkruise.git.tree import clean_path  # noqa: PLC0415
    from gitkruise.gitops.bootstrap import (  # noqa: PLC0415
        Place,
        files,
        followed,
        objects_of,
        reachable,
    )
    from gitkruise.gitops.install import manifests  # noqa: PLC0415

    publisher, repository = at
    path = clean_path(asked.path)
    branch = publisher.branch(asked.branch or publisher.current() or "main")
    place = Place(
        url=reachable(asked.url or publisher.address(branch), publisher.folder),
        branch=branch.name,
        path=path,
        namespace=asked.namespace,
        secret=asked.secret,
    )
    entries = {name: repository.find(branch.tip, name) for name in place.files}
    found = {name: repository.read_blob(e.id) for name, e in entries.items() if e and e.is_file}
    objects = manifests(_wishes(asked))
    changed = files(place, objects, found)
    if await followed(place, chosen.transport):
        return _Draft(place=place, branch=branch, files=changed, objects=())
    await _installer(asked, chosen, dry_run=True).install(objects)  # finds what is refused
    whole = (*objects, *objects_of({**found, **changed}, place))
    return _Draft(place=place, branch=branch, files=changed, objects=whole)


def _wishes(asked: _Asked, *, dry_run: bool = False) -> Wishes:
    from gitkruise.gitops.install import Wishes  # noqa: PLC0415  imports the schemas

    return Wishes(
        kept_in_git=True, namespace=asked.namespace, image=asked.image, webhooks=asked.webhooks,
        dry_run=dry_run,
    )  # fmt: skip


def _installer(asked: _Asked, chosen: Chosen, *, dry_run: bool = False) -> Installer:
    from gitkruise.gitops.install import Installer  # noqa: PLC0415
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415

    wishes = _wishes(asked, dry_run=dry_run)
    return Installer(chosen.transport, load_catalog(), chosen.clock, wishes)


def _published(asked: _Asked, draft: _Draft, at: tuple[Publisher, Repository]) -> str:
    """The commit that is pushed; "" where nothing is to be. Raises UsageProblem GK7045."""
    from gitkruise.git.status_branch import edit_tree  # noqa: PLC0415

    if asked.dry_run or not draft.files:
        return ""
    if not asked.yes:
        confirm_push(draft.branch.shown)
    publisher, repository = at
    tree = edit_tree(repository, repository.tree_id(draft.branch.tip), draft.files, [])
    upgrade = not draft.objects
    subject = f"{'Upgrade' if upgrade else 'Install'} gitkruise at {draft.place.path or 'the top'}"
    commit = publisher.commit(tree, draft.branch.tip, subject + "\n")
    publisher.publish(draft.branch, commit)
    return commit


# Showing ------------------------------------------------------------------------------------------


def _show(asked: _Asked, draft: _Draft) -> None:
    if asked.output == "json":
        return
    for path in draft.place.files:
        told = "to be written" if path in draft.files else "unchanged"
        say(f"{told:<14} {path}", Style.of(read_environment()))
    if draft.place.url.startswith("/") and not asked.cluster.sandbox:
        tell(f"{draft.place.url} is on this machine, which a controller inside the cluster cannot "
             "reach: give --url")  # fmt: skip
    if draft.files:
        where = f"{draft.place.path or '.'} on {draft.branch.shown}"
        tell(f"whoever may push to {where} rules the cluster")


def _say(asked: _Asked, draft: _Draft, commit: str, done: list[Installed]) -> None:
    style = Style.of(read_environment())
    if asked.output == "json":
        say_json(_as_obj(draft, commit, done), style)
        return
    say([line_of(item) for item in done], style)
    if asked.dry_run:
        tell(f"dry run, nothing was written: {len(draft.objects)} objects to install")
        return
    if commit:
        pushed = f", pushed to {draft.branch.remote}" if draft.branch.remote else ""
        tell(f"{style.paint('✓', 'green')} {commit[:7]} on {draft.branch.name}{pushed}")
    if not draft.objects:
        what = "it brings the new files itself" if commit else "there is nothing to do"
        tell(f"the cluster follows {draft.place.path or 'the top'} already: {what}")
    tell(f"  next: kubectl get units -n {draft.place.namespace}")


def _as_obj(draft: _Draft, commit: str, done: list[Installed]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Bootstrap",
        "branch": draft.branch.name,
        "remote": draft.branch.remote,
        "commit": commit,
        "files": sorted(draft.files),
        "objects": [installed_obj(item) for item in done],
    }

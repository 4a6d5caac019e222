"""gitkruise bootstrap: commit the manifests of the controller and install them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.commands.cluster.install import SIMULATED, installed_obj, line_of
from gitkruise.cli.console.command import ExitCodesCommand, output_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import API_VERSION, say, say_json, say_on_stderr
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.confirm import confirm_push

if TYPE_CHECKING:
    from gitkruise.cli.context.cluster import ChosenCluster
    from gitkruise.git.push.user_push import Branch, Publisher
    from gitkruise.git.repository.repository import Repository
    from gitkruise.gitops.install.bootstrap import ClusterPath
    from gitkruise.gitops.install.deploy_key import DeployKey
    from gitkruise.gitops.install.installer import Installed, Installer, InstallOptions
    from gitkruise.wire.primitives.names import Obj


DEPLOY_KEY: Final = "deploy-key"


@click.command(cls=ExitCodesCommand, exits=(4, 5, 6))
@click.argument("path", metavar="PATH")
@click.option("--repo", default=".", show_default=True, help="Checkout or bare repository.")
@click.option(
    "--branch", default="", metavar="NAME", help="Branch to follow [default: current branch]."
)
@click.option("--url", default="", metavar="URL",
              help="Repository URL for the controller [default: URL of the remote].")  # fmt: skip
@click.option("--secret", default="", metavar="NAME",
              help="Secret with the credentials, in the controller's namespace.")  # fmt: skip
@click.option("--deploy-key", is_flag=True,
              help="Create that Secret with a new ssh key, and print its public half "
              f"[default name: {DEPLOY_KEY}].")  # fmt: skip
@click.option("--namespace", "-n", default="gitkruise-system", show_default=True,
              help="Namespace of the controller.")  # fmt: skip
@click.option("--image", default="", metavar="IMAGE", help="Image of the controller.")
@click.option("--webhooks", is_flag=True,
              help="Also install the webhooks, for clusters without OpenKruise.")  # fmt: skip
@click.option(
    "--print",
    "--dry-run",
    "dry_run",
    is_flag=True,
    help="Show the changes; commit and apply nothing.",
)
@click.option("-y", "--yes", is_flag=True, help="Push without asking.")
@output_option
@cluster_options
def bootstrap(path: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Install gitkruise from a repository, which then also manages gitkruise itself.

    \b
    Examples:
      gitkruise bootstrap clusters/prod --context prod --deploy-key
      gitkruise bootstrap clusters/prod --context prod --secret git-credentials
      gitkruise bootstrap clusters/prod --context prod --print
      gitkruise bootstrap clusters/dev --sandbox

    PATH/gitkruise/install.yaml installs the controller; follow.yaml next to it lets the controller
    follow PATH. A second run changes nothing; a run of a newer version commits the upgrade. Anyone
    who can push to PATH controls the cluster, as with Flux.
    """
    if flags["deploy_key"]:
        flags["secret"] = flags["secret"] or DEPLOY_KEY
    asyncio.run(_bootstrap(_BootstrapOptions(path=path, cluster=cluster, **flags)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _BootstrapOptions:
    path: str
    repo: str
    branch: str
    url: str
    secret: str
    deploy_key: bool
    namespace: str
    image: str
    webhooks: bool
    dry_run: bool
    yes: bool
    output: str
    cluster: ClusterChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class _BootstrapDraft:
    """Files to commit and objects to apply.

    Where the cluster follows the path already (`follows`), it applies the files itself: `objects`
    has a new Secret at most. `key` is the public deploy key, "" without one and for one that a
    dry run does not keep.
    """

    place: ClusterPath
    branch: Branch
    files: Mapping[str, bytes]
    objects: tuple[Obj, ...]
    follows: bool
    key: str = ""


async def _bootstrap(options: _BootstrapOptions) -> None:
    from gitkruise.git.push.user_push import Publisher  # noqa: PLC0415  not for --help
    from gitkruise.git.repository.mirror import local_folder  # noqa: PLC0415
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415

    environment = read_environment()
    publisher = Publisher(local_folder(options.repo), environment.variables)
    with Repository.open(str(publisher.folder)) as repository:
        async with connected(options.cluster, environment) as chosen:
            draft = await _draft(options, publisher, repository, chosen)
            _show(options, draft)
            commit = _published(options, draft, publisher, repository)
            objects = () if options.dry_run else draft.objects
            done = await _installer(options, chosen).install(objects)
            _say(options, draft, commit, done)
            if chosen.embedded and options.output == "text" and not options.dry_run:
                say_on_stderr(SIMULATED)


async def _draft(
    options: _BootstrapOptions,
    publisher: Publisher,
    repository: Repository,
    chosen: ChosenCluster,
) -> _BootstrapDraft:
    from gitkruise.git.plumbing.trees import clean_path  # noqa: PLC0415
    from gitkruise.gitops.install.bootstrap import (  # noqa: PLC0415
        ClusterPath,
        files,
        followed,
        objects_of,
        reachable,
    )
    from gitkruise.gitops.install.installer import manifests  # noqa: PLC0415

    path = clean_path(options.path)
    branch = publisher.ready_branch(options.branch or publisher.current() or "main")
    place = ClusterPath(
        url=reachable(options.url or publisher.address(branch), publisher.folder),
        branch=branch.name,
        path=path,
        namespace=options.namespace,
        secret=options.secret,
    )
    entries = {name: repository.find(branch.tip, name) for name in place.files}
    found = {name: repository.read_blob(e.id) for name, e in entries.items() if e and e.is_file}
    objects = manifests(_install_options(options))
    changed = files(place, objects, found)
    key = await _key(options, place, chosen)
    secret = (key.secret,) if key is not None and key.secret is not None else ()
    draft = _BootstrapDraft(
        place=place, branch=branch, files=changed, objects=secret, follows=True,
        key=key.public if key is not None and not (secret and options.dry_run) else "",
    )  # fmt: skip
    follow = objects_of({**found, **changed}, place)
    _warn_of_secret(place, follow)
    if await followed(place, chosen.transport):
        return draft
    await _installer(options, chosen, dry_run=True).install(
        objects
    )  # finds rejected objects before the commit
    return replace(draft, objects=(*objects, *secret, *follow), follows=False)


async def _key(
    options: _BootstrapOptions, place: ClusterPath, chosen: ChosenCluster
) -> DeployKey | None:
    if not options.deploy_key:
        return None
    from gitkruise.gitops.install.deploy_key import deploy_key, host_keys  # noqa: PLC0415

    home = Path(read_environment().variables.get("HOME", "/"))
    files = (home / ".ssh" / "known_hosts", Path("/etc/ssh/ssh_known_hosts"))
    known = await asyncio.to_thread(host_keys, place.url, files)
    return await deploy_key(chosen.transport, place.namespace, place.secret, known)


def _warn_of_secret(place: ClusterPath, follow: tuple[Obj, ...]) -> None:
    """Say that a file which is the user's names other credentials than the command."""
    from gitkruise.wire.primitives.paths import get  # noqa: PLC0415  start-up budget

    named = {get(o, "spec", "secretRef", "name", default="") for o in follow
             if o["kind"] == "GitSource"}  # fmt: skip
    if place.secret and place.secret not in named:
        say_on_stderr(f"{place.files[1]} exists and is yours: no GitSource in it names the Secret "
             f"{place.secret}; next: add secretRef: {{name: {place.secret}}}")  # fmt: skip


def _install_options(options: _BootstrapOptions, *, dry_run: bool = False) -> InstallOptions:
    from gitkruise.gitops.install.installer import InstallOptions  # noqa: PLC0415  imports the schemas

    return InstallOptions(
        kept_in_git=True, namespace=options.namespace, image=options.image,
        webhooks=options.webhooks, dry_run=dry_run,
    )  # fmt: skip


def _installer(
    options: _BootstrapOptions, chosen: ChosenCluster, *, dry_run: bool = False
) -> Installer:
    from gitkruise.gitops.install.installer import Installer  # noqa: PLC0415
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    install_options = _install_options(options, dry_run=dry_run)
    return Installer(chosen.transport, load_catalog(), chosen.clock, install_options)


def _published(
    options: _BootstrapOptions,
    draft: _BootstrapDraft,
    publisher: Publisher,
    repository: Repository,
) -> str:
    """Push and return the commit; "" if nothing changed. Raises UsageProblem GK7045."""
    from gitkruise.git.push.status_branch import edit_tree  # noqa: PLC0415

    if options.dry_run or not draft.files:
        return ""
    if not options.yes:
        confirm_push(draft.branch.shown)
    tree = edit_tree(repository, repository.tree_id(draft.branch.tip), draft.files, [])
    upgrade = draft.follows
    subject = f"{'Upgrade' if upgrade else 'Install'} gitkruise at {draft.place.path or 'the top'}"
    commit = publisher.commit(tree, draft.branch.tip, subject + "\n")
    publisher.publish(draft.branch, commit)
    return commit


# Showing ------------------------------------------------------------------------------------------


def _show(options: _BootstrapOptions, draft: _BootstrapDraft) -> None:
    if options.output == "json":
        return
    for path in draft.place.files:
        word = "to be written" if path in draft.files else "unchanged"
        say(f"{word:<14} {path}", Style.of(read_environment()))
    if draft.place.url.startswith("/") and not options.cluster.sandbox:
        say_on_stderr(f"{draft.place.url}: a local path, which a controller inside the cluster "
                      "cannot read; "
             "next: name a URL with --url")  # fmt: skip
    if draft.files:
        where = f"{draft.place.path or '.'} on {draft.branch.shown}"
        say_on_stderr(f"anyone who can push to {where} controls the cluster")


def _say(
    options: _BootstrapOptions, draft: _BootstrapDraft, commit: str, done: list[Installed]
) -> None:
    style = Style.of(read_environment())
    if options.output == "json":
        say_json(_as_obj(draft, commit, done), style)
        return
    say([line_of(item) for item in done], style)
    if options.dry_run:
        say_on_stderr(f"dry run, nothing was written: {len(draft.objects)} objects to install")
        return
    if commit:
        pushed = f", pushed to {draft.branch.remote}" if draft.branch.remote else ""
        say_on_stderr(f"{style.paint('✓', 'green')} {commit[:7]} on {draft.branch.name}{pushed}")
    if draft.follows:
        what = "it applies the new files itself" if commit else "nothing to do"
        say_on_stderr(f"the cluster follows {draft.place.path or 'the top'} already: {what}")
    if draft.key:
        say(draft.key, style)
        say_on_stderr(f"  next: add this deploy key to {draft.place.url}, with write access: "
                      "gitkruise "
             "writes its status there")  # fmt: skip
    say_on_stderr(f"  next: kubectl get units -n {draft.place.namespace}")


def _as_obj(draft: _BootstrapDraft, commit: str, done: list[Installed]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Bootstrap",
        "branch": draft.branch.name,
        "remote": draft.branch.remote,
        "commit": commit,
        "files": sorted(draft.files),
        "deployKey": draft.key,
        "objects": [installed_obj(item) for item in done],
    }

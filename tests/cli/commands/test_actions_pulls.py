"""--pr opens a pull request where the unit's Sink names a forge; else it says where people do."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitkruise.wire.primitives.requests import APPLY_PATCH, ApiRequest, ResourceRef
from tests.cli.calls import Caller
from tests.cli.live import send
from tests.cli.shop import cloneset
from tests.git.repos import ENV, Origin, make_origin, run_git
from tests.gitops.forges.forges import REPO, TOKEN, ModelForge, reply, served

FILE = "apps/checkout.yaml"
WHO = {name: value for name, value in ENV.items() if name.startswith("GIT_")}
SECRETS = ResourceRef("", "v1", "secrets")
_COMMENT = ("POST", "/comments")
PAGES = {
    "github": "/compare/main...{branch}?expand=1",
    "gitlab": "/-/merge_requests/new?merge_request%5Bsource_branch%5D={branch}"
    "&merge_request%5Btarget_branch%5D=main",
    "gitea": "/compare/main...{branch}",
}


def config(kind: str, url: str) -> str:
    head = "apiVersion: gitkruise.io/v1alpha1\nkind: "
    forge = {"type": kind, "url": url, "repo": REPO, "secretRef": {"name": "forge"}}
    steps = [{"partition": "60%"}, {"partition": 0}]
    unit = {
        "sourceRef": {"name": "here"}, "path": "apps", "sinkRef": {"name": "out"},
        "promotion": {"workload": {"kind": "CloneSet", "name": "checkout"}, "steps": steps},
    }  # fmt: skip
    return "---\n".join(
        f"{head}{name}\nmetadata: {{name: {name.lower() if name == 'Unit' else short}, "
        f"namespace: default}}\nspec: {json.dumps(spec)}\n"
        for name, short, spec in (
            ("GitSource", "here", {"url": ".", "ref": {"branch": "main"}}),
            ("Sink", "out", {"git": {"sourceRef": {"name": "here"}}, "forge": forge}),
            ("Unit", "unit", unit),
        )
    )


@contextmanager
def answering(model: ModelForge) -> Iterator[str]:
    """The model on loopback, in a thread of its own; its address."""
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = Future()

    async def main() -> None:
        stop = asyncio.Event()
        async with served(model) as url:
            ready.set_result((asyncio.get_running_loop(), stop, url))
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    loop, stop, url = ready.result(30)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)


def put_token(kubeconfig: Path, token: str) -> None:
    data = {"token": base64.b64encode(token.encode()).decode()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "forge"}, "data": data}
    send(
        kubeconfig,
        ApiRequest(
            verb="patch", resource=SECRETS, namespace="default", name="forge", body=body,
            content_type=APPLY_PATCH, params={"fieldManager": "test", "force": "true"},
        ),
    )  # fmt: skip


def canary(folder: Path, kind: str, url: str) -> tuple[Origin, ModelForge]:
    origin = make_origin(folder)
    first = {FILE: cloneset("v1"), "gitkruise.yaml": config(kind, url)}
    origin.commit(first, "first release")
    origin.commit({FILE: cloneset("v2", partition="60%")}, "canary")
    run_git(origin.work, "fetch", "-q")
    return origin, ModelForge(kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAGES)
def test_the_pull_request_is_opened_with_the_sinks_token_and_its_address_printed(
    kind: str, gk: Caller, cluster: Path, tmp_path: Path
) -> None:
    model = ModelForge(kind)
    with answering(model) as url:
        origin, _ = canary(tmp_path, kind, url)
        model.head_of = lambda name: run_git(
            origin.bare, "for-each-ref", "--format=%(objectname)", f"refs/heads/{name}"
        )
        put_token(cluster, TOKEN)
        words = ["checkout", "-n", "shop", "--kubeconfig", str(cluster)]
        ended = gk("promote", *words, "--partition", "30%", "--force", cwd=origin.work, **WHO)
        assert ended.code == 0, ended.err
        (pull,) = model.pulls.values()
        assert (pull["title"], pull["base"]) == ("checkout: promote to partition 30%", "main")
        assert pull["head"] == model.head_of(pull["branch"])
        assert f"pull request: https://{'lab' if kind == 'gitlab' else 'hub'}/{REPO}" in ended.err
        ended = gk("promote", *words, "--partition", "20%", "--force", cwd=origin.work, **WHO)
        assert ended.code == 0, ended.err
        assert [p["title"] for p in model.pulls.values()] == ["checkout: promote to partition 20%"]
        origin.commit({"other.md": "text"}, "main moves")
        message = run_git(origin.bare, "log", "-1", "--format=%B", pull["branch"])
        run_git(origin.work, "checkout", "-q", "--detach", "main")
        theirs = "gitkruise/promote-checkout-of-another-cluster"
        head = origin.commit({"prod/checkout.yaml": "# step\n"}, message, branch=theirs)
        run_git(origin.work, "checkout", "-q", "main")
        run_git(origin.work, "fetch", "-q")
        model.open_pull(8, head, branch=theirs)
        model.open_pull(9, run_git(origin.bare, "rev-parse", "main"), branch="gitkruise/promote-x")
        ended = gk("promote", *words, "--partition", "20%", "--force", cwd=origin.work, **WHO)
        assert [p["state"] for p in model.pulls.values()] == ["closed", "open", "open", "open"]
        assert "Overtaken by #10" in model.comments[1][0]["body"]
        put_token(cluster, "wrong")
        ended = gk("rollback", *words, "--pr", "--force", cwd=origin.work, **WHO)
        assert (ended.code, "GK3504" in ended.err) == (4, True), ended.err
        branch = f"gitkruise/rollback-checkout-{run_git(origin.bare, 'rev-parse', 'main')[:7]}"
        assert model.head_of(branch)
        assert f"next: open it at {url}/{REPO}{PAGES[kind].format(branch=branch)}" in (ended.err)
    assert len(model.pulls) == 4


@pytest.mark.slow
def test_the_pull_request_of_a_hold_warns_of_a_squash(
    gk: Caller, cluster: Path, tmp_path: Path
) -> None:
    model = ModelForge("gitea")
    with answering(model) as url:
        origin, _ = canary(tmp_path, "gitea", url)
        model.head_of = lambda name: run_git(
            origin.bare, "for-each-ref", "--format=%(objectname)", f"refs/heads/{name}"
        )
        put_token(cluster, TOKEN)
        words = ["checkout", "-n", "shop", "--kubeconfig", str(cluster), "--force"]
        for verb in (["hold", "--partition", "60%"], ["promote", "--partition", "30%"]):
            ended = gk(verb[0], *words, *verb[1:], cwd=origin.work, **WHO)
            assert ended.code == 0, ended.err
        held, promoted = (pull["body"] for pull in model.pulls.values())
        assert "If you squash it, keep the lines that begin with Gitkruise-" in held
        assert "squash" not in promoted
        trailers = "Gitkruise-Action: {}\nGitkruise-Unit: default/unit\nGitkruise-Object: CloneSet"
        for action, body in (("hold", held), ("promote", promoted)):
            assert body.rpartition("\n\n")[2].startswith(trailers.format(action))


@pytest.mark.slow
def test_an_earlier_pull_request_that_cannot_be_closed_is_named_next_to_the_open_one(
    gk: Caller, cluster: Path, tmp_path: Path
) -> None:
    model = ModelForge("github")
    with answering(model) as url:
        origin, _ = canary(tmp_path, "github", url)
        model.head_of = lambda name: run_git(
            origin.bare, "for-each-ref", "--format=%(objectname)", f"refs/heads/{name}"
        )
        put_token(cluster, TOKEN)
        words = ["checkout", "-n", "shop", "--kubeconfig", str(cluster), "--force"]
        ended = gk("promote", *words, "--partition", "30%", cwd=origin.work, **WHO)
        assert ended.code == 0, ended.err
        origin.commit({"other.md": "text"}, "main moves")
        run_git(origin.work, "fetch", "-q")
        no = reply(403, {"message": "Resource not accessible by personal access token"})
        model.fails = lambda method, path: no if (method, path[-9:]) == _COMMENT else None
        ended = gk("promote", *words, "--partition", "30%", cwd=origin.work, **WHO)
        assert ended.code == 4, ended.err
        assert [p["state"] for p in model.pulls.values()] == ["open", "open"]
        assert "cannot open" not in ended.err
        assert f"https://hub/{REPO}/pulls/2 is open, and an earlier one may be, too" in ended.err
        assert "Resource not accessible" in ended.err
        assert "next: close" in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAGES)
def test_without_a_cluster_the_branch_is_pushed_and_the_page_printed(
    kind: str, gk: Caller, tmp_path: Path
) -> None:
    origin, _ = canary(tmp_path, kind, "http://127.0.0.1:9")
    ended = gk("promote", "checkout", "--partition", "30%", cwd=origin.work, **WHO)
    assert ended.code == 0, ended.err
    branch = f"gitkruise/promote-checkout-{run_git(origin.bare, 'rev-parse', 'main')[:7]}"
    page = f"http://127.0.0.1:9/{REPO}{PAGES[kind].format(branch=branch)}"
    assert f"next: open a pull request from {branch} into main: {page}\n" in ended.err

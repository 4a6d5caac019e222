"""GitHub's REST API, and Gitea's and Forgejo's, which follow it.

Paths, fields and limits are those of the public documentation of the three.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from gitkruise.errors import Forbidden, NotFound
from gitkruise.gitops.forges.github_app import AppToken
from gitkruise.gitops.forges.http import JsonClient, Login
from gitkruise.gitops.forges.provider import PULL_REF, pages, read_all, read_one
from gitkruise.model.gitops.notifications import (
    Comment,
    CommitStatusItem,
    DeploymentItem,
    Pull,
    PullState,
)


@dataclass(frozen=True, slots=True)
class ForgeDialect:
    """Differences between GitHub, Gitea and Forgejo."""

    root: str  # of the API, below a server of one's own
    size_name: str
    size: int
    comments_paged: bool
    scheme: str  # of the Authorization header
    headers: Mapping[str, str]
    queues: bool  # it has merge queues
    by_branch: tuple[str, ...]  # lists of a branch's pull requests, newest first
    ways: Mapping[str, str]  # to merge, by the settings of a repository that allow them
    merge: Callable[[str, str], tuple[str, Mapping[str, Any]]]  # method and body, by head and way


_GITEA: Final = ForgeDialect(
    "/api/v1", "limit", 50, comments_paged=False, scheme="token", headers={}, queues=False,
    by_branch=("state=open", "state=closed&sort=recentupdate"),
    ways={
        "allow_merge_commits": "merge", "allow_squash_merge": "squash", "allow_rebase": "rebase",
        "allow_rebase_explicit": "rebase-merge",
        "allow_fast_forward_only_merge": "fast-forward-only",
    },
    merge=lambda head, way: ("POST", {"Do": way, "head_commit_id": head}),
)  # fmt: skip
DIALECTS: Final[Mapping[str, ForgeDialect]] = {
    "github": ForgeDialect(
        "/api/v3", "per_page", 100, comments_paged=True, scheme="Bearer",
        headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
        queues=True,
        by_branch=("state=all&head={owner}:{branch}",),
        ways={
            "allow_merge_commit": "merge", "allow_squash_merge": "squash",
            "allow_rebase_merge": "rebase",
        },
        merge=lambda head, way: ("PUT", {"sha": head, "merge_method": way}),
    ),
    "gitea": _GITEA,
    "forgejo": _GITEA,
}  # fmt: skip
_BACK_PAGES: Final = 20  # in which a branch's pull request is looked for, of each list
_NO_BRANCH: Final = "refs/pull/"
_PREFERRED: Final = "default_merge_style"  # of Gitea and Forgejo
_QUEUE: Final = "gh-readonly-queue/"  # before `main/pr-12-COMMIT`, the branches of a merge queue
_TASK: Final = "deploy:gitkruise"  # by which our deployments of a commit are found again


class GitHubClient:
    """Implement ForgeRepository."""

    def __init__(
        self,
        client: JsonClient,
        repo: str,
        dialect: ForgeDialect,
        app: Callable[[], Awaitable[AppToken | None]] | None = None,
    ) -> None:
        """`app` returns the app that requests are made for, None for a user."""
        self._client, self._dialect = client, dialect
        self._repo = "/repos/" + "/".join(quote(part, safe="") for part in repo.split("/"))
        self._app, self._login = app, Login(client, self._user)

    async def set_status(self, item: CommitStatusItem) -> None:
        body = {
            "state": item.state, "context": item.context, "description": item.description,
        }  # fmt: skip
        await self._client.send("POST", f"{self._repo}/statuses/{item.commit}", body)

    async def set_deployment(self, item: DeploymentItem) -> None:
        """Neither waits for checks nor merges anything; Gitea and Forgejo have no deployments."""
        path = f"{self._repo}/deployments"
        names = urlencode({
            "sha": item.commit, "environment": item.environment, "task": _TASK, "per_page": 1,
        })  # fmt: skip
        found = read_all(await self._client.get(f"{path}?{names}"), _number)
        if not found:
            wanted = {
                "ref": item.commit, "environment": item.environment, "task": _TASK,
                "auto_merge": False, "required_contexts": [], "description": "applied by gitkruise",
            }  # fmt: skip
            found = [read_one(await self._client.send("POST", path, wanted), _number)]
        state = {"state": item.state, "description": item.description}
        await self._client.send("POST", f"{path}/{found[0]}/statuses", state)

    async def me(self) -> str:
        return await self._login.now()

    async def _user(self) -> str:
        app = await self._app() if self._app is not None else None
        if app is not None:
            return await app.login()
        return read_one(await self._client.get("/user"), lambda user: str(user["login"]))

    async def open_pulls(self) -> list[Pull]:
        return [
            pull
            async for page in self._pages(f"{self._repo}/pulls?state=open")
            for pull in read_all(page, _pull)
        ]

    async def queued(self) -> list[Pull]:
        if not self._dialect.queues:
            return []
        try:
            found = await self._client.get(f"{self._repo}/git/matching-refs/heads/{_QUEUE}")
        except (Forbidden, NotFound):
            return []
        return [one for one in read_all(found, _queued) if one.base]

    async def pull(self, number: int) -> Pull:
        return read_one(await self._client.get(f"{self._repo}/pulls/{number}"), _pull)

    async def pulls_from(self, branch: str) -> list[Pull]:
        names = {"owner": self._repo.split("/")[2], "branch": quote(branch, safe="")}
        for words in self._dialect.by_branch:
            path = f"{self._repo}/pulls?{words.format(**names)}"
            if found := await self._of_branch(path, branch):
                return found
        return []

    async def _of_branch(self, path: str, branch: str) -> list[Pull]:
        """The pull requests of the first page of a list that has any of a branch, newest first."""
        looked_at = 0
        async for page in self._pages(path):
            pulls = read_all(page, _pull)
            ours = [pull for pull in pulls if pull.branch == branch and not pull.foreign]
            looked_at += 1
            if ours or looked_at == _BACK_PAGES:
                return sorted(ours, key=lambda pull: -pull.number)
        return []

    async def open_pull(self, branch: str, base: str, title: str, body: str) -> Pull:
        wanted = {"title": title, "head": branch, "base": base, "body": body}
        return read_one(await self._client.send("POST", f"{self._repo}/pulls", wanted), _pull)

    async def edit_pull(self, number: int, title: str, body: str | None = None) -> None:
        wanted = {"title": title} if body is None else {"title": title, "body": body}
        await self._client.send("PATCH", f"{self._repo}/pulls/{number}", wanted)

    async def merge(self, number: int, head: str) -> None:
        method, body = self._dialect.merge(head, await self._way())
        await self._client.send(method, f"{self._repo}/pulls/{number}/merge", body)

    async def _way(self) -> str:
        """Return the way to merge that the repository prefers among those that it allows; a token
        may not see its settings."""
        shown = await self._client.get(self._repo)
        settings = shown if isinstance(shown, dict) else {}
        allowed = [way for name, way in self._dialect.ways.items() if settings.get(name)]
        preferred = settings.get(_PREFERRED)
        return str(preferred) if preferred in allowed else next(iter(allowed), "merge")

    async def close(self, number: int) -> None:
        await self._client.send("PATCH", f"{self._repo}/pulls/{number}", {"state": "closed"})

    async def comments(self, number: int) -> AsyncIterator[Comment]:
        path = f"{self._repo}/issues/{number}/comments"
        if not self._dialect.comments_paged:
            for comment in read_all(await self._client.get(path), _comment):
                yield comment
            return
        async for page in self._pages(path):
            for comment in read_all(page, _comment):
                yield comment

    async def add_comment(self, number: int, body: str) -> None:
        await self._client.send("POST", f"{self._repo}/issues/{number}/comments", {"body": body})

    async def edit_comment(self, number: int, comment: int, body: str) -> None:
        path = f"{self._repo}/issues/comments/{comment}"
        await self._client.send("PATCH", path, {"body": body})

    def ref_of(self, number: int) -> str:
        return PULL_REF.format(number)

    def _pages(self, path: str) -> AsyncIterator[list[Any]]:
        return pages(self._client, path, size_name=self._dialect.size_name, size=self._dialect.size)


def _number(item: Any) -> int:
    return int(item["id"])


def _pull(item: Any) -> Pull:
    merged = bool(item.get("merged") or item.get("merged_at"))
    state: PullState = "merged" if merged else "open" if item["state"] == "open" else "closed"
    theirs, ours = item["head"].get("repo"), item["base"].get("repo")
    foreign = theirs is None or ours is None or theirs["id"] != ours["id"]
    branch, label = str(item["head"]["ref"]), item["head"].get("label")
    branchless = branch.startswith(_NO_BRANCH)
    # Gitea lets users who may only read push a pull request without a branch: refs/for/main.
    foreign = foreign or label == "" or (branchless and state == "open")
    if branchless:  # also one whose branch was deleted when it ended
        branch = str(label or branch)
    return Pull(
        number=int(item["number"]),
        state=state,
        head=str(item["head"]["sha"]),
        base=str(item["base"]["ref"]),
        title=str(item.get("title") or ""),
        merged_as=str(item.get("merge_commit_sha") or "") if merged else "",
        foreign=foreign,
        branch=branch,
        url=str(item["html_url"]),
    )


def _queued(item: Any) -> Pull:
    branch = str(item["ref"]).removeprefix("refs/heads/")
    base = branch.removeprefix(_QUEUE).rpartition("/pr-")[0]
    head = str(item["object"]["sha"])
    return Pull(number=0, state="open", head=head, base=base, branch=branch)


def _comment(item: Any) -> Comment:
    author = (item.get("user") or {}).get("login") or ""
    return Comment(id=int(item["id"]), author=str(author), body=str(item.get("body") or ""))

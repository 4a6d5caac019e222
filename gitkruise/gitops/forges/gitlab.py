"""GitLab's REST API: merge requests, notes and commit statuses, as its documentation has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from gitkruise.errors import BadRequest, NotFound
from gitkruise.gitops.forges.http import JsonClient, Login
from gitkruise.gitops.forges.provider import MERGE_REQUEST_REF, pages, read_all, read_one
from gitkruise.model.gitops.notifications import (
    Comment,
    CommitStatusItem,
    DeploymentItem,
    Pull,
    PullState,
)

ROOT: Final = "/api/v4"
_STATES: Final[Mapping[str, str]] = {
    "pending": "running", "success": "success", "failure": "failed", "error": "failed",
}  # fmt: skip
_PULLS: Final[Mapping[str, PullState]] = {
    "opened": "open", "locked": "open", "merged": "merged", "closed": "closed",
}  # fmt: skip
_DEPLOYED: Final[Mapping[str, str]] = {
    "in_progress": "running", "success": "success", "failure": "failed", "error": "failed",
    "inactive": "canceled",
}  # fmt: skip
_RUNNING: Final = frozenset({"created", "running", "blocked"})
_SAME: Final = "Cannot transition status"  # the status is in that state already
_ON_NO_BRANCH: Final = "References for commit"  # of this project, as the head from another one is


class GitLab:
    """Implement ForgeRepository."""

    def __init__(self, client: JsonClient, repo: str) -> None:
        self._client = client
        self._project = f"/projects/{quote(repo, safe='')}"
        self._login = Login(client, self._user)

    async def set_status(self, item: CommitStatusItem) -> None:
        """A running status cannot be set to running again, with other words either. A commit that
        no branch of the project has gets none."""
        body = {
            "state": _STATES[item.state], "name": item.context,
            "description": item.description,
        }  # fmt: skip
        try:
            await self._client.send("POST", f"{self._project}/statuses/{item.commit}", body)
        except BadRequest as error:
            if _SAME not in error.message:
                raise
        except NotFound as error:
            if _ON_NO_BRANCH not in error.message:
                raise

    async def set_deployment(self, item: DeploymentItem) -> None:
        """One that has ended runs no more, and one that was a success is not called off."""
        path, state = f"{self._project}/deployments", _DEPLOYED[item.state]
        words = {"environment": item.environment, "order_by": "id", "sort": "desc"}
        page = await self._client.get(f"{path}?{urlencode(words)}&per_page=100")
        found = [d for d in read_all(page, _deployment) if d[1] == item.commit]
        if not found:
            body = {
                "environment": item.environment, "sha": item.commit, "tag": False,
                "ref": item.ref or item.commit, "status": state,
            }  # fmt: skip
            await self._client.send("POST", path, body)
            return
        number, _, before = found[0]
        over = before not in _RUNNING
        if state != before and not (over and state in {"running", "canceled"}):
            await self._client.send("PUT", f"{path}/{number}", {"status": state})

    async def me(self) -> str:
        return await self._login.now()

    async def _user(self) -> str:
        return read_one(await self._client.get("/user"), lambda user: str(user["username"]))

    async def open_pulls(self) -> list[Pull]:
        path = f"{self._project}/merge_requests?state=opened"
        return [
            pull
            async for page in pages(self._client, path, size_name="per_page", size=100)
            for pull in read_all(page, _pull)
            if pull.head  # one whose branch was deleted has none
        ]

    async def queued(self) -> list[Pull]:
        """A merge train of GitLab waits for pipelines, not for a status."""
        return []

    async def pull(self, number: int) -> Pull:
        path = f"{self._project}/merge_requests/{number}"
        return read_one(await self._client.get(path), _pull)

    async def pulls_from(self, branch: str) -> list[Pull]:
        words = f"state=all&source_branch={quote(branch, safe='')}&order_by=created_at&sort=desc"
        found = read_all(await self._client.get(f"{self._project}/merge_requests?{words}"), _pull)
        return [pull for pull in found if pull.branch == branch and not pull.foreign]

    async def open_pull(self, branch: str, base: str, title: str, body: str) -> Pull:
        wanted = {
            "source_branch": branch, "target_branch": base, "title": title, "description": body,
            "remove_source_branch": True,
        }  # fmt: skip
        path = f"{self._project}/merge_requests"
        return read_one(await self._client.send("POST", path, wanted), _pull)

    async def edit_pull(self, number: int, title: str, body: str | None = None) -> None:
        wanted = {"title": title} if body is None else {"title": title, "description": body}
        path = f"{self._project}/merge_requests/{number}"
        await self._client.send("PUT", path, wanted)

    async def merge(self, number: int, head: str) -> None:
        await self._client.send(
            "PUT", f"{self._project}/merge_requests/{number}/merge", {"sha": head}
        )

    async def close(self, number: int) -> None:
        path = f"{self._project}/merge_requests/{number}"
        await self._client.send("PUT", path, {"state_event": "close"})

    async def comments(self, number: int) -> AsyncIterator[Comment]:
        path = f"{self._notes(number)}?sort=asc&order_by=created_at"
        async for page in pages(self._client, path, size_name="per_page", size=100):
            for comment in read_all(page, _comment):
                yield comment

    async def add_comment(self, number: int, body: str) -> None:
        await self._client.send("POST", self._notes(number), {"body": body})

    async def edit_comment(self, number: int, comment: int, body: str) -> None:
        await self._client.send("PUT", f"{self._notes(number)}/{comment}", {"body": body})

    def ref_of(self, number: int) -> str:
        return MERGE_REQUEST_REF.format(number)

    def _notes(self, number: int) -> str:
        return f"{self._project}/merge_requests/{number}/notes"


def _deployment(item: Any) -> tuple[int, str, str]:
    """(id, commit, status)"""
    return int(item["id"]), str(item["sha"]), str(item["status"])


def _pull(item: Any) -> Pull:
    merged = item.get("merge_commit_sha") or item.get("squash_commit_sha") or item["sha"]
    return Pull(
        number=int(item["iid"]),
        state=_PULLS[item["state"]],
        head=str(item["sha"] or ""),
        base=str(item["target_branch"]),
        title=str(item.get("title") or ""),
        merged_as=str(merged) if item["state"] == "merged" else "",
        foreign=item["source_project_id"] != item["target_project_id"],
        branch=str(item["source_branch"]),
        url=str(item["web_url"]),
    )


def _comment(item: Any) -> Comment:
    return Comment(
        id=int(item["id"]), author=str(item["author"]["username"]), body=str(item["body"])
    )

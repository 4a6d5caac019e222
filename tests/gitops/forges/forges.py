"""GitHub, GitLab and Gitea as far as we use them: they enforce what their documentation says."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from gitkruise.errors import Unavailable
from gitkruise.gitops.forges.factory import always
from gitkruise.gitops.forges.github import DIALECTS, GitHubClient
from gitkruise.gitops.forges.gitlab import ROOT, GitLab
from gitkruise.gitops.forges.http import JsonClient, JsonReply
from gitkruise.gitops.forges.provider import ForgeRepository
from gitkruise.kube.system.clock import Clock

TOKEN: Final = "a token for tests"
REPO: Final = "shop/fleet"
ME: Final = "gitkruise-bot"
Headers = Mapping[str, str]


class Refusal(Exception):
    """A documented refusal: a status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass
class ModelForge:
    """One repository. `commits` are known; `fails` may answer or raise instead of the forge."""

    kind: str
    commits: set[str] = field(default_factory=set)
    pulls: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    statuses: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)
    deployments: list[dict[str, Any]] = field(default_factory=list)  # states oldest first
    asked: list[str] = field(default_factory=list)
    unchanged: int = 0  # answers 304
    fails: Callable[[str, str], JsonReply | None] = lambda _method, _path: None
    ids: int = 100
    page_max: int = 100  # items of a page, which the administrator may limit
    accounts: dict[str, str] = field(default_factory=lambda: {TOKEN: ME})  # logins by token
    _me: str = ME  # who makes the request
    _more: bool = False  # the last list has a further page
    head_of: Callable[[str], str] = lambda _branch: ""  # a branch's commit; "" for none
    mergeable: bool = True
    ways: tuple[str, ...] = ("merge", "squash", "rebase")  # to merge, by the repository's settings
    queue: dict[str, str] = field(default_factory=dict)  # heads by branch of a merge queue
    preferred: str = "merge"
    on_merge: Callable[[int], str] = lambda _number: ""  # the commit a merge makes

    # A person's side ------------------------------------------------------------------------

    def open_pull(
        self, number: int, head: str, base: str = "main", *, repo: int = 1, branch: str = "topic"
    ) -> None:
        self.pulls[number] = {
            "head": head, "base": base, "state": "open", "from": repo, "branch": branch,
        }  # fmt: skip
        self.commits.add(head)

    def end_pull(self, number: int, state: str, merged_as: str = "") -> None:
        self.pulls[number] |= {"state": state, "merged_as": merged_as}

    def say(self, number: int, author: str, body: str) -> None:
        self.ids += 1
        note = {"id": self.ids, "author": author, "body": body}
        self.comments.setdefault(number, []).append(note)

    def last(self, commit: str, context: str) -> tuple[str, str]:
        """(state, description) of the newest status."""
        return self.statuses[commit, context][-1]

    # The API --------------------------------------------------------------------------------

    async def exchange(
        self, method: str, url: str, headers: Headers, body: bytes | None
    ) -> JsonReply:
        """Implement HttpTransport."""
        parts = urlsplit(url)
        self.asked.append(f"{method} {parts.path}")
        answer = self.fails(method, parts.path)
        return answer or self.answer(method, url, headers, body)

    def answer(self, method: str, url: str, headers: Headers, body: bytes | None) -> JsonReply:
        parts = urlsplit(url)
        try:
            self._admit(headers)
            query, self._more = {k: v[0] for k, v in parse_qs(parts.query).items()}, False
            value = self._route(method, unquote(parts.path), query, json.loads(body or b"{}"))
        except Refusal as refusal:
            return reply(refusal.status, {"message": refusal.message})
        if method != "GET":
            return reply(201 if method == "POST" else 200, value)
        tag = f'"{hash(json.dumps(value, sort_keys=True))}"'
        if self.kind != "gitea" and headers.get("If-None-Match") == tag:
            self.unchanged += 1
            return JsonReply(304, CIMultiDictProxy(CIMultiDict({"ETag": tag})), b"")
        link = {"Link": f'<{url}&page=2>; rel="next",<{url}>; rel="last"'} if self._more else {}
        return reply(200, value, link if self.kind == "gitea" else {"ETag": tag, **link})

    def _admit(self, headers: Headers) -> None:
        name, scheme = {
            "github": ("Authorization", "Bearer "),
            "gitlab": ("PRIVATE-TOKEN", ""),
            "gitea": ("Authorization", "token "),
        }[self.kind]
        logins = {f"{scheme}{token}": login for token, login in self.accounts.items()}
        if headers.get(name) not in logins:
            raise Refusal(401, "Bad credentials")
        self._me = logins[headers[name]]
        if self.kind == "github" and not headers.get("User-Agent"):
            raise Refusal(403, "Request forbidden by administrative rules")

    def _route(self, method: str, path: str, query: Headers, body: Any) -> Any:
        base = f"/projects/{REPO}" if self.kind == "gitlab" else f"/repos/{REPO}"
        path = path.partition("/api/v")[2].partition("/")[2] if "/api/v" in path else path
        path = "/" + path.lstrip("/")
        if path == "/user":
            return {"login": self._me, "username": self._me, "id": 7}
        if not path.startswith(base):
            raise Refusal(404, "Not Found")
        for wanted, pattern, handler in _ROUTES[self.kind == "gitlab"]:
            found = re.fullmatch(pattern, path.removeprefix(base))
            if found and method == wanted:
                return handler(self, query, body, *found.groups())
        raise Refusal(404, "Not Found")

    def _status(self, _query: Headers, body: Any, commit: str) -> Any:
        lab = self.kind == "gitlab"
        context = body["name"] if lab else body["context"]
        states = _LAB_STATES if lab else _HUB_STATES
        if commit not in self.commits:
            raise Refusal(404 if lab else 422, f"No commit found for SHA: {commit}")
        if lab and any(p["head"] == commit and p["from"] != 1 for p in self.pulls.values()):
            raise Refusal(404, "404 References for commit Not Found")
        if body["state"] not in states:
            raise Refusal(400 if lab else 422, "state is not included in the list")
        if len(body["description"]) > (255 if lab else 140) or len(context) > 255:
            raise Refusal(400 if lab else 422, "description is too long (maximum is 140)")
        kept = self.statuses.setdefault((commit, context), [])
        if lab and kept and kept[-1][0] == body["state"] == "running":
            raise Refusal(400, "Cannot transition status via :run from :running")
        if len(kept) >= 1000:
            raise Refusal(422, "This SHA and context has reached the maximum number of statuses.")
        kept.append((body["state"], body["description"]))
        return {"id": 1}

    def _list_deployments(self, query: Headers, _body: Any) -> Any:
        asked = {k: v for k, v in query.items() if k in {"sha", "environment", "task"}}
        found = [
            d for d in reversed(self.deployments) if all(d.get(k) == v for k, v in asked.items())
        ]
        return self._page(found, query)

    def _deploy(self, _query: Headers, body: Any) -> Any:
        lab = self.kind == "gitlab"
        commit = body["sha"] if lab else body["ref"]
        if commit not in self.commits or not 0 < len(body["environment"]) <= 255:
            raise Refusal(400 if lab else 422, f"No ref found for: {commit}")
        if lab and (body["status"] not in _DEPLOYED[True] or not body["ref"] or body["tag"]):
            raise Refusal(400, "status does not have a valid value")
        if not lab and (body["required_contexts"] != [] or len(body["description"]) > 140):
            raise Refusal(409, "Conflict: Commit status checks failed for main.")
        if not lab and body["auto_merge"]:
            raise Refusal(202, "Auto-merged main into topic on deployment.")
        made = {"id": len(self.deployments) + 1, "sha": commit, "states": [], **body}
        made["states"] = [(body["status"], "")] if lab else []
        self.deployments.append(made)
        return made

    def _go_on(self, _query: Headers, body: Any, number: str) -> Any:
        lab, known = self.kind == "gitlab", self.deployments[int(number) - 1]
        state = body["status" if lab else "state"]
        if state not in _DEPLOYED[lab] or len(body.get("description", "")) > 140:
            raise Refusal(400 if lab else 422, "state is not included in the list")
        if lab and (state == known["status"] or (state == "running" != known["status"])):
            raise Refusal(400, f"Status cannot transition via {state} from {known['status']}")
        for other in [] if lab or state != "success" else self.deployments:
            same = other is not known and other["environment"] == known["environment"]
            if same and other["states"][-1:] and other["states"][-1][0] == "success":
                other["states"].append(("inactive", ""))  # by GitHub itself
        known["states"].append((state, body.get("description", "")))
        known["status"] = state
        return {"id": 1, "state": state}

    def _list_pulls(self, query: Headers, _body: Any) -> Any:
        wanted = query.get("state", "")
        if wanted not in ({"opened", "all"} if self.kind == "gitlab" else _LISTED[self.kind]):
            raise Refusal(400, "state")
        states = {"all": {"open", "merged", "closed"}, "closed": {"merged", "closed"}}
        found = [(n, p) for n, p in sorted(self.pulls.items(), reverse=wanted in {"all", "closed"})
                 if p["state"] in states.get(wanted, {"open"})]  # fmt: skip
        named = query.get("source_branch") or query.get("head", "").partition(":")[2]
        return self._page([self._pull(n) for n, p in found if named in {"", p["branch"]}], query)

    def _make_pull(self, _query: Headers, body: Any) -> Any:
        lab = self.kind == "gitlab"
        branch = body["source_branch" if lab else "head"]
        base = body["target_branch" if lab else "base"]
        if not self.head_of(branch) or not body["title"]:
            raise Refusal({"github": 422, "gitlab": 400, "gitea": 404}[self.kind], "no such branch")
        same = [p for p in self.pulls.values() if (p["branch"], p["base"]) == (branch, base)]
        if any(p["state"] == "open" for p in same):
            raise Refusal(422 if self.kind == "github" else 409, "there is one already")
        number = max(self.pulls, default=0) + 1
        self.open_pull(number, self.head_of(branch), base, branch=branch)
        description = body.get("description") if lab else body.get("body")
        self.pulls[number] |= {"title": body["title"], "body": description}
        return self._pull(number)

    def _merge(self, _query: Headers, body: Any, number: str) -> Any:
        pull = self.pulls[int(number)]
        if pull["state"] != "open" or not self.mergeable:
            raise Refusal(405, "the pull request is not mergeable: a required check has not run")
        if body.get("head_commit_id" if self.kind == "gitea" else "sha") != pull["head"]:
            raise Refusal(409, "head was modified")
        if self.kind != "gitlab":
            way = body["Do"] if self.kind == "gitea" else body.get("merge_method", "merge")
            if way not in self.ways:
                raise Refusal(405, f"{way} is not allowed on this repository")
            pull["way"] = way
        self.end_pull(int(number), "merged", self.on_merge(int(number)))
        return {"merged": True}

    def _queued(self, _query: Headers, _body: Any) -> Any:
        if self.kind != "github":
            raise Refusal(404, "Not Found")
        return [
            {"ref": f"refs/heads/{branch}", "object": {"type": "commit", "sha": head}}
            for branch, head in self.queue.items()
        ]

    def _settings(self, _query: Headers, _body: Any) -> Any:
        names = {"merge": "allow_merge_commit", "squash": "allow_squash_merge"}
        names["rebase"] = "allow_rebase_merge"
        if self.kind == "gitea":
            names |= {"merge": "allow_merge_commits", "rebase": "allow_rebase"}
        allowed = {name: way in self.ways for way, name in names.items()}
        preferred = {"default_merge_style": self.preferred} if self.kind == "gitea" else {}
        return {**allowed, **preferred}

    def _change_pull(self, _query: Headers, body: Any, number: str) -> Any:
        words = {"title": body.get("title"), "body": body.get("body", body.get("description"))}
        if words["title"]:
            self.pulls[int(number)] |= {name: text for name, text in words.items() if text}
        elif "close" in {body.get("state_event"), body.get("state", "")[:5]}:
            self.end_pull(int(number), "closed")
        else:
            raise Refusal(422, "state")
        return self._pull(int(number))

    def _one_pull(self, _query: Headers, _body: Any, number: str) -> Any:
        if int(number) not in self.pulls:
            raise Refusal(404, "Not Found")
        return self._pull(int(number))

    def _pull(self, number: int) -> Any:
        p = self.pulls[number]
        merged = p.get("merged_as") or None
        if self.kind == "gitlab":
            state = {"open": "opened"}.get(p["state"], p["state"])
            return {
                "iid": number, "sha": p["head"], "target_branch": p["base"], "state": state,
                "title": p.get("title", "t"), "merge_commit_sha": merged, "squash_commit_sha": None,
                "source_project_id": p["from"], "target_project_id": 1,
                "source_branch": p["branch"], "web_url": f"https://lab/{REPO}/{number}",
            }  # fmt: skip
        return {
            "number": number, "title": p.get("title", "t"), "merge_commit_sha": merged,
            "state": "open" if p["state"] == "open" else "closed",
            "merged_at": "2026-11-21T10:00:00Z" if p["state"] == "merged" else None,
            "head": self._head(number),
            "html_url": f"https://hub/{REPO}/pulls/{number}",
            "base": {"ref": p["base"], "repo": {"id": 1}},
        }  # fmt: skip

    def _head(self, number: int) -> Any:
        p = self.pulls[number]
        hub, ref = self.kind == "github", p["branch"]
        if not hub and p.get("branchless"):
            ref = f"refs/pull/{number}/head"
        label = f"shop:{p['branch']}" if hub else p.get("label", p["branch"])
        return {"sha": p["head"], "repo": {"id": p["from"]}, "ref": ref, "label": label}

    def _list_comments(self, query: Headers, _body: Any, number: str) -> Any:
        shown = [self._shown(c) for c in self.comments.get(int(number), [])]
        return shown if self.kind == "gitea" else self._page(shown, query)

    def _shown(self, comment: Mapping[str, Any]) -> Any:
        who = {"login": comment["author"], "username": comment["author"]}
        return {"id": comment["id"], "body": comment["body"], "user": who, "author": who}

    def _page(self, items: list[Any], query: Headers) -> list[Any]:
        name = "limit" if self.kind == "gitea" else "per_page"
        most = min(50 if self.kind == "gitea" else 100, self.page_max)
        size = min(int(query.get(name, 30)), most)
        start = (int(query.get("page", 1)) - 1) * size
        self._more = start + size < len(items)
        return items[start : start + size]

    def _checked(self, body: Any) -> str:
        limit = 1_000_000 if self.kind == "gitlab" else 65_536
        if not body["body"].strip() or len(body["body"]) > limit:
            raise Refusal(400 if self.kind == "gitlab" else 422, "body is too long or blank")
        return str(body["body"])

    def _comment(self, _query: Headers, body: Any, number: str) -> Any:
        self.say(int(number), self._me, self._checked(body))
        return {"id": self.ids}

    def _edit(self, _query: Headers, body: Any, *where: str) -> Any:
        for comment in (c for kept in self.comments.values() for c in kept):
            if comment["id"] == int(where[-1]):
                comment["body"] = self._checked(body)
                return {"id": comment["id"]}
        raise Refusal(404, "Not Found")


_LISTED: Final = {"github": {"open", "all"}, "gitea": {"open", "closed", "all"}}
_HUB_STATES: Final = {"pending", "success", "failure", "error"}
_LAB_STATES: Final = {"pending", "running", "success", "failed", "canceled", "skipped"}
_DEPLOYED: Final = {
    False: {"error", "failure", "inactive", "in_progress", "queued", "pending", "success"},
    True: {"running", "success", "failed", "canceled"},
}
_Route = tuple[str, str, Callable[..., Any]]
_M: Final = ModelForge
_ROUTES: Final[dict[bool, list[_Route]]] = {
    False: [
        ("GET", "", _M._settings),
        ("GET", "/git/matching-refs/heads/gh-readonly-queue/", _M._queued),
        ("POST", r"/statuses/(\w+)", _M._status), ("GET", r"/pulls", _M._list_pulls),
        ("POST", r"/pulls", _M._make_pull), ("PATCH", r"/pulls/(\d+)", _M._change_pull),
        ("PUT", r"/pulls/(\d+)/merge", _M._merge), ("POST", r"/pulls/(\d+)/merge", _M._merge),
        ("GET", r"/pulls/(\d+)", _M._one_pull), ("PATCH", r"/issues/comments/(\d+)", _M._edit),
        ("GET", r"/deployments", _M._list_deployments), ("POST", r"/deployments", _M._deploy),
        ("POST", r"/deployments/(\d+)/statuses", _M._go_on),
        ("GET", r"/issues/(\d+)/comments", _M._list_comments),
        ("POST", r"/issues/(\d+)/comments", _M._comment),
    ],
    True: [
        ("POST", r"/statuses/(\w+)", _M._status), ("GET", r"/merge_requests", _M._list_pulls),
        ("POST", r"/merge_requests", _M._make_pull),
        ("PUT", r"/merge_requests/(\d+)", _M._change_pull),
        ("PUT", r"/merge_requests/(\d+)/merge", _M._merge),
        ("GET", r"/merge_requests/(\d+)", _M._one_pull),
        ("GET", r"/deployments", _M._list_deployments), ("POST", r"/deployments", _M._deploy),
        ("PUT", r"/deployments/(\d+)", _M._go_on),
        ("GET", r"/merge_requests/(\d+)/notes", _M._list_comments),
        ("POST", r"/merge_requests/(\d+)/notes", _M._comment),
        ("PUT", r"/merge_requests/(\d+)/notes/(\d+)", _M._edit),
    ],
}  # fmt: skip


def reply(status: int, value: Any, headers: Headers | None = None) -> JsonReply:
    """A JSON answer."""
    multi = CIMultiDictProxy(CIMultiDict(headers or {}))
    return JsonReply(status, multi, json.dumps(value).encode())


def away(_method: str, _path: str) -> JsonReply | None:
    """Nobody answers."""
    raise Unavailable("connection refused: nothing listens there")


def client(model: ModelForge, clock: Clock, root: str = "", carrier: Any = None) -> ForgeRepository:
    """Our client of a model, straight or by a carrier."""
    carried = carrier or model
    if model.kind == "gitlab":
        authorize = always("PRIVATE-TOKEN", TOKEN)
        return GitLab(JsonClient(carried, (root or "https://lab") + ROOT, authorize, clock), REPO)
    dialect = DIALECTS[model.kind]
    authorize = always("Authorization", f"{dialect.scheme} {TOKEN}")
    where = (root or "https://hub") + dialect.root
    return GitHubClient(JsonClient(carried, where, authorize, clock), REPO, dialect)


@asynccontextmanager
async def served(model: ModelForge) -> AsyncIterator[str]:
    """The model on a loopback port; its address."""

    async def handle(request: web.BaseRequest) -> web.Response:
        answer = await model.exchange(
            request.method, str(request.url), request.headers, await request.read()
        )
        return web.Response(
            status=answer.status, body=answer.body, headers={**answer.headers},
            content_type="application/json",
        )  # fmt: skip

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()

"""Our clients of GitHub, GitLab and Gitea, over real sockets, against what these enforce."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from gitkruise.errors import (
    ApiError,
    Forbidden,
    InternalError,
    TooManyRequests,
    Unavailable,
)
from gitkruise.gitops.forges.http import HttpForgeTransport
from gitkruise.gitops.forges.provider import ForgeRepository
from gitkruise.gitops.notify.channel import deliver
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.notifications import (
    CommentItem,
    CommitStatusItem,
    DeploymentItem,
    DeploymentState,
)
from gitkruise.planner.notify.comment import MARK, compose, sections
from tests.gitops.forges.forges import ME, ModelForge, client, reply, served

KINDS: Final = ["github", "gitlab", "gitea"]
SHA: Final = "c" * 40
TWO: Final = "e" * 40
Script = Callable[[ModelForge, ForgeRepository], Awaitable[None]]


def play(kind: str, script: Script) -> ModelForge:
    model = ModelForge(kind, commits={SHA})

    async def main() -> None:
        carrier = HttpForgeTransport()
        try:
            async with served(model) as root:
                await script(model, client(model, SystemClock(), root, carrier))
        finally:
            await carrier.close()

    asyncio.run(main())
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_a_status_is_set_for_a_commit_and_context(kind: str) -> None:
    async def script(_model: ModelForge, forge: ForgeRepository) -> None:
        for state, words in (("pending", "moving"), ("pending", "still"), ("success", "held")):
            await deliver(forge, CommitStatusItem(SHA, "gitkruise/prod/shop/web", state, words))  # type: ignore[arg-type]  # rows of words

    model = play(kind, script)
    states = [state for state, _ in model.statuses[SHA, "gitkruise/prod/shop/web"]]
    assert states == (
        ["running", "success"] if kind == "gitlab" else ["pending", "pending", "success"]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_all_states_are_words_the_forge_knows(kind: str) -> None:
    async def script(_model: ModelForge, forge: ForgeRepository) -> None:
        for state in ("pending", "success", "failure", "error"):
            await forge.set_status(CommitStatusItem(SHA, state, state, "x" * 140))

    assert len(play(kind, script).statuses) == 4


DEPLOYED: Final[dict[str, list[list[str]]]] = {
    "github": [["in_progress", "success", "success", "in_progress", "inactive"], ["failure"]],
    "gitlab": [["running", "success"], ["failed"]],
}


@pytest.mark.parametrize("kind", DEPLOYED)
def test_a_commit_has_one_deployment_in_an_environment(kind: str) -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        model.commits.add(TWO)
        rows: list[DeploymentState] = ["in_progress", "success", "success", "in_progress"]
        for state in rows:
            await deliver(forge, DeploymentItem(SHA, "prod", "main", state, "x" * 140))
        await deliver(forge, DeploymentItem(TWO, "prod", "", "failure", "stuck"))
        await deliver(forge, DeploymentItem(SHA, "prod", "main", "inactive", "superseded"))
        with pytest.raises(ApiError):
            await deliver(forge, DeploymentItem("d" * 40, "prod", "main", "success", ""))

    model = play(kind, script)
    assert [d["sha"] for d in model.deployments] == [SHA, TWO]
    assert [[s for s, _ in d["states"]] for d in model.deployments] == DEPLOYED[kind]
    if kind == "gitlab":
        assert [d["ref"] for d in model.deployments] == ["main", TWO]


def test_what_runs_on_gitlab_is_called_off_and_another_environment_has_its_own() -> None:
    async def script(_model: ModelForge, forge: ForgeRepository) -> None:
        await deliver(forge, DeploymentItem(SHA, "prod", "main", "in_progress", ""))
        await deliver(forge, DeploymentItem(SHA, "edge", "main", "error", ""))
        await deliver(forge, DeploymentItem(SHA, "edge", "main", "success", ""))
        await deliver(forge, DeploymentItem(SHA, "prod", "main", "inactive", ""))

    found = play("gitlab", script).deployments
    assert [(d["environment"], [s for s, _ in d["states"]]) for d in found] == [
        ("prod", ["running", "canceled"]), ("edge", ["failed", "success"]),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_the_forge_lacks_is_refused_for_what_it_says(kind: str) -> None:
    async def script(_model: ModelForge, forge: ForgeRepository) -> None:
        with pytest.raises(ApiError) as caught:
            await forge.set_status(CommitStatusItem("d" * 40, "x", "success", ""))
        assert caught.value.status in {404, 422}

    play(kind, script)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pull_request_is_opened_found_again_merged_and_closed(kind: str) -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        model.head_of = lambda branch: SHA if branch == "topic/50%" else ""
        assert await forge.pulls_from("topic/50%") == []
        pull = await forge.open_pull("topic/50%", "main", "on to 50%", "why")
        assert (pull.state, pull.head, pull.base, pull.branch) == ("open", SHA, "main", "topic/50%")
        assert pull.url.startswith("https://")
        with pytest.raises(ApiError):
            await forge.open_pull("topic/50%", "main", "again", "")
        with pytest.raises(ApiError):
            await forge.open_pull("nothing", "main", "there is no such branch", "")
        assert await forge.pulls_from("topic/50%") == [pull]
        await forge.edit_pull(pull.number, "on to 40%", "because")
        shown = model.pulls[pull.number]
        assert (shown["title"], shown["body"], shown["state"]) == ("on to 40%", "because", "open")
        model.mergeable = False
        with pytest.raises(ApiError):
            await forge.merge(pull.number, SHA)
        model.mergeable = True
        with pytest.raises(ApiError):
            await forge.merge(pull.number, "f" * 40)
        await forge.merge(pull.number, SHA)
        assert (await forge.pulls_from("topic/50%"))[0].state == "merged"
        other = await forge.open_pull("topic/50%", "main", "once more", "")
        await forge.close(other.number)
        assert [p.state for p in await forge.pulls_from("topic/50%")] == ["closed", "merged"]

    play(kind, script)


@pytest.mark.parametrize("kind", ["github", "gitea"])
@pytest.mark.parametrize(
    ("ways", "preferred", "used"),
    [
        (("merge", "squash", "rebase"), "merge", "merge"),
        (("squash", "rebase"), "merge", "squash"),
        (("rebase",), "squash", "rebase"),
        (("merge", "rebase"), "rebase", "rebase"),
    ],
)
def test_a_pull_request_is_merged_in_a_way_that_the_repository_allows(
    kind: str, ways: tuple[str, ...], preferred: str, used: str
) -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        model.ways, model.preferred = ways, preferred
        model.open_pull(1, SHA)
        await forge.merge(1, SHA)
        # GitHub says what is allowed, and not what is preferred.
        assert model.pulls[1]["way"] == (used if kind == "gitea" else ways[0])

    play(kind, script)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pull_request_is_found_behind_a_hundred_newer_ones(kind: str) -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        for number in range(1, 240):
            branch = {1: "declined", 2: "proposed"}.get(number, f"topic-{number}")
            model.open_pull(number, f"{number:040x}", branch=branch)
            if number != 2 and number % 2:
                model.end_pull(number, "closed")
        for branch, number, state in (("declined", 1, "closed"), ("proposed", 2, "open")):
            found = await forge.pulls_from(branch)
            assert [(p.number, p.state) for p in found] == [(number, state)]

    play(kind, script)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pull_request_is_found_after_its_branch_was_deleted(kind: str) -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        model.open_pull(1, SHA, branch="gitkruise/step")
        model.end_pull(1, "closed")
        model.pulls[1]["branchless"] = True
        found = await forge.pulls_from("gitkruise/step")
        assert [(p.number, p.state) for p in found] == [(1, "closed")]

    play(kind, script)


def test_what_is_pushed_for_review_on_gitea_is_a_strangers() -> None:
    """Whoever may read the repository may push one, to no branch of it."""

    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        model.open_pull(1, SHA, branch="mallory/topic")
        for shown in ({"branchless": True}, {"label": ""}, {"label": "", "branchless": True}):
            model.pulls[1] = {k: v for k, v in model.pulls[1].items() if k != "branchless"} | shown
            (pull,) = await forge.open_pulls()
            assert pull.foreign

    play("gitea", script)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [20, 100])
def test_pull_requests_are_read_to_the_last_page(kind: str, limit: int) -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        model.page_max = limit
        for number in range(1, 131):
            model.open_pull(number, f"{number:040x}", repo=1 if number % 2 else 2)
        model.end_pull(7, "closed")
        model.end_pull(8, "merged", "e" * 40)
        found = await forge.open_pulls()
        assert [p.number for p in found] == [n for n in range(1, 131) if n not in {7, 8}]
        assert found[0].head == f"{1:040x}"
        assert (found[0].foreign, found[1].foreign) == (False, True)
        assert (await forge.pull(7)).state == "closed"
        merged = await forge.pull(8)
        assert (merged.state, merged.merged_as) == ("merged", "e" * 40)

    play(kind, script)


@pytest.mark.parametrize("kind", KINDS)
def test_one_comment_is_made_and_edited_in_place_among_hundreds(kind: str) -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        model.open_pull(5, SHA)
        model.say(5, "mallory", f"{MARK}\n\n<!-- gitkruise:begin prod -->\nx")  # not ours
        for number in range(250):
            model.say(5, "dana", f"comment {number}")
        await deliver(forge, CommentItem(5, "prod", "first", "1"))
        await deliver(forge, CommentItem(5, "prod", "second", "2"))
        await deliver(forge, CommentItem(5, "edge", "other cluster", "3"))
        await deliver(forge, CommentItem(5, "prod", "third", "4"))

    model = play(kind, script)
    ours = [c for c in model.comments[5] if c["author"] == ME]
    assert len(ours) == 1
    assert sections(ours[0]["body"]) == {"prod": "third", "edge": "other cluster"}
    assert model.comments[5][0]["author"] == "mallory"
    assert model.comments[5][0]["body"].endswith("\nx")


@pytest.mark.parametrize("kind", KINDS)
def test_two_clusters_that_commented_at_the_same_time_keep_to_their_own(kind: str) -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        for cluster in ("prod", "edge"):
            model.say(5, ME, compose("", cluster, f"plan of {cluster}", ""))
        model.comments[5][0]["body"] = model.comments[5][0]["body"].replace("\n", "\r\n")
        await deliver(forge, CommentItem(5, "edge", "newer", ""))
        await deliver(forge, CommentItem(5, "third", "new", ""))

    found = [sections(c["body"]) for c in play(kind, script).comments[5]]
    assert found == [{"prod": "plan of prod", "third": "new"}, {"edge": "newer"}]


@pytest.mark.parametrize("kind", KINDS)
def test_what_needs_no_comment_makes_none_and_sends_no_edit_twice(kind: str) -> None:
    async def script(_model: ModelForge, forge: ForgeRepository) -> None:
        await deliver(forge, CommentItem(5, "prod", "nothing", "1", needed=False))
        await deliver(forge, CommentItem(6, "prod", "same", "1"))
        await deliver(forge, CommentItem(6, "prod", "same", "1"))

    model = play(kind, script)
    assert 5 not in model.comments
    assert len([a for a in model.asked if a.split()[0] in {"POST", "PATCH", "PUT"}]) == 1


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_lists_that_did_not_change_are_not_sent_again(kind: str) -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        model.open_pull(1, SHA)
        assert [p.number for p in await forge.open_pulls()] == [1]
        assert [p.number for p in await forge.open_pulls()] == [1]
        model.open_pull(2, SHA)
        assert [p.number for p in await forge.open_pulls()] == [1, 2]

    assert play(kind, script).unchanged == 1


REFUSALS: Final = [
    ("429", (429, {"Retry-After": "7"}, {}), TooManyRequests, 7),
    ("429 without a time", (429, {}, {}), TooManyRequests, 0),
    ("secondary limit", (403, {"Retry-After": "60"}, {}), TooManyRequests, 60),
    ("secondary limit in words", (403, {}, {"message": "You have exceeded a secondary rate limit"}),
     TooManyRequests, 60),
    ("far too long", (429, {"Retry-After": "999999"}, {}), TooManyRequests, 3600),
    ("forbidden", (403, {}, {"message": "Resource not accessible"}), Forbidden, 0),
    ("500", (500, {}, {}), InternalError, 0),
    ("503 busy", (503, {"Retry-After": "9"}, {}), TooManyRequests, 9),
    ("a redirect is not followed", (302, {"Location": "https://elsewhere.example"}, {}),
     InternalError, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "error", "wait"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS]
)
def test_a_refusal_says_whether_and_when_to_come_back(
    answer: tuple[int, dict[str, str], dict[str, str]], error: type[ApiError], wait: int
) -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        status, headers, body = answer
        model.fails = lambda _method, _path: reply(status, body, headers)
        with pytest.raises(error) as caught:
            await forge.set_status(CommitStatusItem(SHA, "x", "success", ""))
        assert caught.value.details.retry_after_s == wait

    play("github", script)


def test_the_hourly_limit_is_waited_out_to_its_reset() -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        reset = int(SystemClock().now().timestamp()) + 600
        headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)}
        model.fails = lambda _method, _path: reply(403, {"message": "API rate limit"}, headers)
        with pytest.raises(TooManyRequests) as caught:
            await forge.open_pulls()
        assert 590 <= caught.value.details.retry_after_s <= 601

    play("github", script)


def test_a_forge_that_is_away_or_talks_nonsense_is_unavailable() -> None:
    async def script(model: ModelForge, forge: ForgeRepository) -> None:
        model.fails = lambda _method, _path: reply(200, {"not": "a list"})
        with pytest.raises(ApiError):
            await forge.open_pulls()

    play("github", script)

    async def gone() -> None:
        carrier = HttpForgeTransport()
        forge = client(ModelForge("github"), SystemClock(), "http://127.0.0.1:9", carrier)
        with pytest.raises(Unavailable, match="refused"):
            await forge.me()
        await carrier.close()

    asyncio.run(gone())

"""Pull requests that a look at the forge misses, cannot read or cannot plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.model.gitops.config import PullRequests
from tests.git.repos import run_git
from tests.gitops.forges.forges import away, reply
from tests.gitops.notify.desk import CHECK, Desk
from tests.gitops.notify.test_flow import play
from tests.gitops.stage import MakeStage, documents, web

pytestmark = pytest.mark.slow


def test_a_rejected_pull_request_says_what_to_do_next(staged: MakeStage, tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        desk.branch(1, files={"app.yaml": None, "README.md": "x"})
        await desk.stage.rest(5)
        assert "GK2301" in desk.comment(1)
        assert "\n  next: if that is meant, set prune.allowEmpty: true" in desk.comment(1)

    play(staged, tmp_path, script)


@pytest.mark.parametrize("files", [{"README.md": "x"}, {"app.yaml": documents(web("app:v2"))}])
def test_the_only_unit_that_rejects_the_branch_already_fails_no_check(
    staged: MakeStage, tmp_path: Path, files: dict[str, str | None]
) -> None:
    async def script(desk: Desk) -> None:
        await desk.push(broken="a: [")
        await desk.stage.rest()
        assert desk.stage.state == "Rejected"
        head = desk.branch(1, files=files)
        broken = desk.branch(2, files={"other.yaml": "b: ["})
        fixed = desk.branch(3, files={"broken.yaml": "", "app.yaml": documents(web("app:v2"))})
        await desk.stage.rest(5)
        said = "no units affected; a unit rejects main already"
        assert desk.told(head, CHECK) == ("success", said)
        assert 1 not in desk.model.comments
        assert desk.told(broken, CHECK)[0] == "failure"
        assert "other.yaml" in desk.comment(2)
        assert desk.told(fixed, CHECK)[0] == "success"
        assert "4 pods in place" in desk.told(fixed, CHECK)[1]

    play(staged, tmp_path, script)


def test_the_commits_of_a_merge_queue_get_the_check_that_it_waits_for(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(desk: Desk) -> None:
        heads = {}
        for number, text in enumerate((documents(web("app:v2")), "a: [", "b: ["), start=1):
            base = "main" if number < 3 else "elsewhere"
            head = desk.branch(number, text=text)
            branch = f"gh-readonly-queue/{base}/pr-{number}-{head}"
            run_git(desk.stage.origin.bare, "update-ref", f"refs/heads/{branch}", head)
            desk.model.end_pull(number, "closed")  # what is planned is the queue's
            desk.model.queue[branch] = heads[number] = head
        desk.pulls.look_now()
        await desk.stage.rest(60)
        told = {n: desk.model.statuses.get((h, CHECK)) for n, h in heads.items()}
        assert told[1] is not None
        assert len(told[1]) == 1, "it is planned once"
        assert told[1][0][0] == "success"
        assert "4 pods in place" in told[1][0][1]
        assert told[2] == [("failure", "it cannot be merged or applied")]
        assert told[3] is None
        assert desk.model.comments == {}

    play(staged, tmp_path, script)


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
def test_a_token_that_may_not_read_the_queue_reads_pull_requests(
    staged: MakeStage, tmp_path: Path, kind: str
) -> None:
    async def script(desk: Desk) -> None:
        no = reply(403, {"message": "Resource not accessible by personal access token"})
        desk.model.fails = lambda _method, path: no if "matching-refs" in path else None
        desk.branch(1, web("app:v2"))
        await desk.stage.rest(60)
        assert "✅ current" in desk.comment(1)
        assert desk.pulls.problem == ""

    play(staged, tmp_path, script, kind)


def test_a_pull_request_that_one_list_misses_keeps_its_plan(
    staged: MakeStage, tmp_path: Path
) -> None:
    """Others were closed while the pages were read: what moved up between two pages is in none."""

    async def script(desk: Desk) -> None:
        head = desk.branch(1, web("app:v2"))
        await desk.stage.rest(5)
        said, checked = desk.comment(1), desk.told(head, CHECK)
        desk.model.fails = lambda _method, path: reply(200, []) if path.endswith("/pulls") else None
        await desk.stage.rest(60)
        assert (desk.comment(1), desk.told(head, CHECK)) == (said, checked)
        assert len(desk.model.statuses[head, CHECK]) == 1

    play(staged, tmp_path, script)


def test_each_of_several_clusters_may_set_a_check_of_its_own(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(desk: Desk) -> None:
        desk.rules = PullRequests(check="gitkruise/{cluster}/plan")
        loop = desk.loop(desk.channel)
        head = desk.branch(1, web("app:v2"))
        await loop.look()
        await desk.stage.rest(5)
        assert desk.told(head, "gitkruise/test/plan")[0] == "success"

    play(staged, tmp_path, script)


@pytest.mark.parametrize(
    ("check", "said"),
    [("gitkruise/{cluster}/plan", "see gitkruise/test/plan instead"), ("", "gitkruise sets no")],
)
def test_a_check_under_an_earlier_name_says_that_it_counts_no_more(
    staged: MakeStage, tmp_path: Path, check: str, said: str
) -> None:
    """Also where a second Sink appears, which gives the check of each the name of its Sink."""

    async def script(desk: Desk) -> None:
        head = desk.branch(1, web("app:v2"))
        await desk.stage.rest(5)
        assert "pods" in desk.told(head, CHECK)[1]
        desk.rules = PullRequests(check=check)
        await desk.loop(desk.channel).look()
        await desk.stage.rest(5)
        state, words = desk.told(head, CHECK)
        assert state == "success"
        assert said in words
        assert len(desk.model.statuses[head, CHECK]) == 2

    play(staged, tmp_path, script)


def test_a_pull_request_that_git_lacks_keeps_no_other_waiting(
    staged: MakeStage, tmp_path: Path
) -> None:
    told: list[str] = []

    async def script(desk: Desk) -> None:
        desk.pulls.on_problem = told.append
        desk.model.open_pull(1, "d" * 40)
        await desk.stage.rest(10 * 60)
        assert told
        assert told[-1].startswith("pull request 1: ")
        desk.branch(2, web("app:v2"))
        await desk.stage.rest(5)
        assert "✅ current" in desk.comment(2)
        desk.model.end_pull(1, "closed")
        await desk.stage.rest(60)
        assert told[-1] == ""

    play(staged, tmp_path, script)


def test_news_of_units_put_off_no_look(staged: MakeStage, tmp_path: Path) -> None:
    """With many units some record changes within every half minute."""

    async def script(desk: Desk) -> None:
        await desk.stage.rest(5)
        desk.model.asked.clear()
        for _ in range(12):
            await desk.stage.rest(10)
            desk.pulls.offer(desk.stage.record)
        assert sum(asked.endswith("/pulls") for asked in desk.model.asked) == 4

    play(staged, tmp_path, script)


def test_a_deleted_pull_request_is_forgotten(staged: MakeStage, tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        desk.branch(1, web("app:v2"))
        await desk.stage.rest(5)
        del desk.model.pulls[1]
        desk.model.asked.clear()
        await desk.stage.rest(120)
        assert sum(asked.endswith("/pulls/1") for asked in desk.model.asked) == 1
        assert desk.pulls.problem == ""

    play(staged, tmp_path, script)


def test_pull_requests_that_cannot_be_read_are_reported(staged: MakeStage, tmp_path: Path) -> None:
    told: list[str] = []

    async def script(desk: Desk) -> None:
        desk.pulls.on_problem = told.append
        lacking = reply(404, {"message": "Not Found"})
        desk.model.fails = lambda _method, path: lacking if path.endswith("/pulls") else None
        await desk.stage.rest(60)
        assert [bool(why) for why in told] == [True]
        desk.model.fails = away
        await desk.stage.rest(6 * 60)
        desk.model.fails = lambda _method, _path: None
        await desk.stage.rest(10 * 60)
        assert "connection refused" in told[-2]
        assert told[-1] == ""

    play(staged, tmp_path, script)


def test_a_merge_request_from_another_project_of_gitlab_is_no_message_that_fails(
    staged: MakeStage, tmp_path: Path
) -> None:
    """GitLab has statuses of commits that a branch of the project has, and of no others."""

    async def script(desk: Desk) -> None:
        head = desk.branch(1, web("app:v2"), repo=99)
        await desk.stage.rest(5)
        assert "✅ current" in desk.comment(1)
        assert (head, CHECK) not in desk.model.statuses
        assert not [key for key in desk.outbox.waiting("forge") if key.startswith("check/")]

    play(staged, tmp_path, script, "gitlab")


def test_a_plan_that_the_cluster_keeps_waiting_is_no_fault_of_the_forge(
    staged: MakeStage, tmp_path: Path
) -> None:
    told: list[str] = []

    async def script(desk: Desk) -> None:
        desk.pulls.on_problem = told.append
        desk.stage.wire.cut = True
        desk.branch(1, web("app:v2"))
        await desk.stage.rest(10 * 60)
        assert told == ["no answer from the cluster to plan pull request 1: connection refused"]
        desk.stage.wire.cut = False
        await desk.stage.rest(10 * 60)
        assert told[-1] == ""

    play(staged, tmp_path, script)

"""Pull requests that a look at the forge misses, cannot read or cannot plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.model.gitops.config import PullRequests
from tests.git.repos import run_git
from tests.gitops.forges.forges import away, reply
from tests.gitops.notify.harness import CHECK, CONTEXT, ForgeHarness
from tests.gitops.notify.test_flow import play
from tests.gitops.stage import MakeStage, documents, web

pytestmark = pytest.mark.slow


def test_a_rejected_pull_request_says_what_to_do_next(staged: MakeStage, tmp_path: Path) -> None:
    async def script(harness: ForgeHarness) -> None:
        harness.branch(1, files={"app.yaml": None, "README.md": "x"})
        await harness.stage.rest(5)
        assert "GK2301" in harness.comment(1)
        assert "\n  next: if that is meant, set prune.allowEmpty: true" in harness.comment(1)

    play(staged, tmp_path, script)


@pytest.mark.parametrize("files", [{"README.md": "x"}, {"app.yaml": documents(web("app:v2"))}])
def test_the_only_unit_that_rejects_the_branch_already_fails_no_check(
    staged: MakeStage, tmp_path: Path, files: dict[str, str | None]
) -> None:
    async def script(harness: ForgeHarness) -> None:
        await harness.push(broken="a: [")
        await harness.stage.rest()
        assert harness.stage.state == "Rejected"
        head = harness.branch(1, files=files)
        broken = harness.branch(2, files={"other.yaml": "b: ["})
        fixed = harness.branch(3, files={"broken.yaml": "", "app.yaml": documents(web("app:v2"))})
        await harness.stage.rest(5)
        description = "no units affected; a unit rejects main already"
        assert harness.status(head, CHECK) == ("success", description)
        assert 1 not in harness.model.comments
        assert harness.status(broken, CHECK)[0] == "failure"
        assert "other.yaml" in harness.comment(2)
        assert harness.status(fixed, CHECK)[0] == "success"
        assert "4 pods in place" in harness.status(fixed, CHECK)[1]

    play(staged, tmp_path, script)


def test_the_commits_of_a_merge_queue_get_the_check_that_it_waits_for(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(harness: ForgeHarness) -> None:
        heads = {}
        for number, text in enumerate((documents(web("app:v2")), "a: [", "b: ["), start=1):
            base = "main" if number < 3 else "elsewhere"
            head = harness.branch(number, text=text)
            branch = f"gh-readonly-queue/{base}/pr-{number}-{head}"
            run_git(harness.stage.origin.bare, "update-ref", f"refs/heads/{branch}", head)
            harness.model.end_pull(number, "closed")  # what is planned is the queue's
            harness.model.queue[branch] = heads[number] = head
        harness.pulls.look_now()
        await harness.stage.rest(60)
        statuses = {n: harness.model.statuses.get((h, CHECK)) for n, h in heads.items()}
        assert statuses[1] is not None
        assert len(statuses[1]) == 1, "it is planned once"
        assert statuses[1][0][0] == "success"
        assert "4 pods in place" in statuses[1][0][1]
        assert statuses[2] == [("failure", "it cannot be merged or applied")]
        assert statuses[3] is None
        assert harness.model.comments == {}

    play(staged, tmp_path, script)


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
def test_a_token_that_may_not_read_the_queue_reads_pull_requests(
    staged: MakeStage, tmp_path: Path, kind: str
) -> None:
    async def script(harness: ForgeHarness) -> None:
        no = reply(403, {"message": "Resource not accessible by personal access token"})
        harness.model.fails = lambda _method, path: no if "matching-refs" in path else None
        harness.branch(1, web("app:v2"))
        await harness.stage.rest(60)
        assert "✅ current" in harness.comment(1)
        assert harness.pulls.problem == ""

    play(staged, tmp_path, script, kind)


def test_a_pull_request_that_one_list_misses_keeps_its_plan(
    staged: MakeStage, tmp_path: Path
) -> None:
    """Others were closed while the pages were read: what moved up between two pages is in none."""

    async def script(harness: ForgeHarness) -> None:
        head = harness.branch(1, web("app:v2"))
        await harness.stage.rest(5)
        comment, checked = harness.comment(1), harness.status(head, CHECK)
        harness.model.fails = lambda _method, path: (
            reply(200, []) if path.endswith("/pulls") else None
        )
        await harness.stage.rest(60)
        assert (harness.comment(1), harness.status(head, CHECK)) == (comment, checked)
        assert len(harness.model.statuses[head, CHECK]) == 1

    play(staged, tmp_path, script)


def test_each_of_several_clusters_may_set_a_check_of_its_own(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(harness: ForgeHarness) -> None:
        harness.rules = PullRequests(check="gitkruise/{cluster}/plan")
        await harness.stage.rest(5)  # the loop with another check has just looked
        harness.pulls = harness.loop(harness.channel)
        head = harness.branch(1, web("app:v2"))
        await harness.pulls.look()
        await harness.stage.rest(5)
        assert harness.status(head, "gitkruise/test/plan")[0] == "success"

    play(staged, tmp_path, script)


@pytest.mark.parametrize(
    ("check", "text"),
    [("gitkruise/{cluster}/plan", "see gitkruise/test/plan instead"), ("", "gitkruise sets no")],
)
def test_a_check_under_an_earlier_name_says_that_it_counts_no_more(
    staged: MakeStage, tmp_path: Path, check: str, text: str
) -> None:
    """Also where a second Sink appears, which gives the check of each the name of its Sink."""

    async def script(harness: ForgeHarness) -> None:
        head = harness.branch(1, web("app:v2"))
        await harness.stage.rest(5)
        assert "pods" in harness.status(head, CHECK)[1]
        harness.rules = PullRequests(check=check)
        await harness.loop(harness.channel).look()
        await harness.stage.rest(5)
        state, words = harness.status(head, CHECK)
        assert state == "success"
        assert text in words
        assert len(harness.model.statuses[head, CHECK]) == 2

    play(staged, tmp_path, script)


def test_a_pull_request_that_git_lacks_keeps_no_other_waiting(
    staged: MakeStage, tmp_path: Path
) -> None:
    problems: list[str] = []

    async def script(harness: ForgeHarness) -> None:
        harness.pulls.on_problem = problems.append
        harness.model.open_pull(1, "d" * 40)
        await harness.stage.rest(10 * 60)
        assert problems
        assert problems[-1].startswith("pull request 1: ")
        harness.branch(2, web("app:v2"))
        await harness.stage.rest(5)
        assert "✅ current" in harness.comment(2)
        harness.model.end_pull(1, "closed")
        await harness.stage.rest(60)
        assert problems[-1] == ""

    play(staged, tmp_path, script)


def test_news_of_units_put_off_no_look(staged: MakeStage, tmp_path: Path) -> None:
    """With many units some record changes within every half minute."""

    async def script(harness: ForgeHarness) -> None:
        await harness.stage.rest(5)
        harness.model.asked.clear()
        for _ in range(12):
            await harness.stage.rest(10)
            harness.pulls.offer(harness.stage.record)
        assert sum(asked.endswith("/pulls") for asked in harness.model.asked) == 4

    play(staged, tmp_path, script)


def test_a_process_that_lost_its_lease_leaves_the_forge_to_the_next_one(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(harness: ForgeHarness) -> None:
        harness.branch(1, web("app:v2", partition=3))
        await harness.stage.rest(5)
        harness.passive = True
        theirs = harness.comment(1).replace("current", "as the next leader wrote it")
        harness.model.comments[1][0]["body"] = theirs
        merged = await harness.merge(1)
        head = harness.branch(2, web("app:v3"))
        await harness.stage.rest(120)
        assert harness.comment(1) == theirs
        assert 2 not in harness.model.comments
        assert not {commit for commit, _ in harness.model.statuses} & {merged, head}
        harness.passive = False
        await harness.stage.rest(60)
        assert "⏸ Held" in harness.comment(1)
        assert harness.comment(2)
        assert harness.status(merged) == ("success", "held at partition 3 (1/4 updated)")

    play(staged, tmp_path, script)


def test_a_status_that_another_leader_wrote_is_written_over(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(harness: ForgeHarness) -> None:
        commit = await harness.push(web("app:v2"))
        await harness.stage.rest(60)
        harness.passive = True
        await harness.stage.rest(30)
        theirs = ("failure", "stuck: as the next leader saw it")
        harness.model.statuses[commit, CONTEXT].append(theirs)
        await harness.stage.rest(60)
        assert harness.status(commit) == theirs
        harness.passive = False
        await harness.stage.rest(30)
        assert harness.status(commit) == ("success", "done (4/4 updated)")

    play(staged, tmp_path, script)


def test_a_plan_that_another_leader_wrote_is_made_again(staged: MakeStage, tmp_path: Path) -> None:
    async def script(harness: ForgeHarness) -> None:
        head = harness.branch(1, web("app:v2"))
        await harness.stage.rest(5)
        ours, status = harness.comment(1), harness.status(head, CHECK)
        harness.passive = True
        await harness.stage.rest(10)
        harness.model.comments[1][0]["body"] = ours.replace("✅ current", "✗ no plan")
        harness.model.statuses[head, CHECK].append(("error", "it could not be planned"))
        harness.passive = False
        await harness.stage.rest(60)
        assert harness.comment(1) == ours
        assert harness.status(head, CHECK) == status

    play(staged, tmp_path, script)


def test_a_deleted_pull_request_is_forgotten(staged: MakeStage, tmp_path: Path) -> None:
    async def script(harness: ForgeHarness) -> None:
        harness.branch(1, web("app:v2"))
        await harness.stage.rest(5)
        del harness.model.pulls[1]
        harness.model.asked.clear()
        await harness.stage.rest(120)
        assert sum(asked.endswith("/pulls/1") for asked in harness.model.asked) == 1
        assert harness.pulls.problem == ""

    play(staged, tmp_path, script)


def test_pull_requests_that_cannot_be_read_are_reported(staged: MakeStage, tmp_path: Path) -> None:
    problems: list[str] = []

    async def script(harness: ForgeHarness) -> None:
        harness.pulls.on_problem = problems.append
        lacking = reply(404, {"message": "Not Found"})
        harness.model.fails = lambda _method, path: lacking if path.endswith("/pulls") else None
        await harness.stage.rest(60)
        assert [bool(why) for why in problems] == [True]
        harness.model.fails = away
        await harness.stage.rest(6 * 60)
        harness.model.fails = lambda _method, _path: None
        await harness.stage.rest(10 * 60)
        assert "connection refused" in problems[-2]
        assert problems[-1] == ""

    play(staged, tmp_path, script)


def test_a_merge_request_from_another_project_of_gitlab_is_no_message_that_fails(
    staged: MakeStage, tmp_path: Path
) -> None:
    """GitLab has statuses of commits that a branch of the project has, and of no others."""

    async def script(harness: ForgeHarness) -> None:
        head = harness.branch(1, web("app:v2"), repo=99)
        await harness.stage.rest(5)
        assert "✅ current" in harness.comment(1)
        assert (head, CHECK) not in harness.model.statuses
        assert not [key for key in harness.outbox.waiting("forge") if key.startswith("check/")]

    play(staged, tmp_path, script, "gitlab")


def test_a_plan_that_the_cluster_keeps_waiting_is_no_fault_of_the_forge(
    staged: MakeStage, tmp_path: Path
) -> None:
    problems: list[str] = []

    async def script(harness: ForgeHarness) -> None:
        harness.pulls.on_problem = problems.append
        harness.stage.wire.cut = True
        harness.branch(1, web("app:v2"))
        await harness.stage.rest(10 * 60)
        assert problems == ["no answer from the cluster to plan pull request 1: connection refused"]
        harness.stage.wire.cut = False
        await harness.stage.rest(10 * 60)
        assert problems[-1] == ""

    play(staged, tmp_path, script)

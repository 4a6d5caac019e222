"""Random histories whose commits come as pull requests, and what their comments say."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.git.repos import run_git
from tests.gitops.forges.forges import REPO, TOKEN, ModelForge, served
from tests.gitops.programs import SOURCE, unit
from tests.gitops.source.test_repositories import put_secret
from tests.observer.comments import CLOSED, CURRENT, REFUSED, REJECTED, outcome_lies, read_comment
from tests.observer.histories import BRANCH, EDITS, RECORDED, UNITS, Player, rewritten
from tests.observer.plans import Plan
from tests.observer.truth import look

SINK: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{{{name: git, namespace: shop}}}}
spec:
  git: {{{{sourceRef: {{{{name: src}}}}}}}}
  forge:
    {{{{type: github, url: "{forge}", repo: {repo}, secretRef: {{{{name: forge}}}},
      pullRequest: {{{{comment: plan, check: {check}}}}}}}}}
"""
EVENTS: Final = ("pull",) * 4 + ("commit", "restart", "declined")
CHECK: Final = "gitkruise/plan"
LOOK_S: Final = 40.0  # the forge is asked once within it


class PulledPlayer(Player):
    """Plays one history of pull requests, some of which are closed without a merge."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.forge = ModelForge("github")
        self.number = 0

    async def _script(self, steps: int) -> None:
        async with served(self.forge) as url:
            put_secret(self.program.stage, "forge", token=TOKEN)
            sink = SINK.format(forge=url, repo=REPO, check=CHECK)
            units = [unit(name, RECORDED) for name in UNITS]
            self.program.configure(SOURCE + sink + "".join(units))
            self.left = [self.random.choice(EVENTS) for _ in range(steps)]
            await self._plays()

    async def _opened(self) -> Plan:
        """Open a pull request, let it be planned, and return the plan of its comment."""
        self.number += 1
        head = self.checkout.tip(BRANCH)
        run_git(
            self.program.origin.bare, "update-ref", f"refs/pull/{self.number}/head", head
        )  # the forge's own ref
        self.forge.open_pull(self.number, head, branch=BRANCH)
        await self.program.stage.rest(LOOK_S)
        commit, heading, plan = read_comment(self._comment())
        planned = bool(plan.text)  # no comment says that nothing changes
        rejecting = self._rejecting(self.git.commit("refs/heads/main"), f"refs/heads/{BRANCH}")
        named = REJECTED + ", ".join(rejecting)
        wrong = planned and (commit != head[:7] or heading not in {REFUSED, CURRENT, named})
        verdict = self.forge.last(head, CHECK)[0]
        if plan.refused != self._refused(
            self.git.commit("refs/heads/main"), f"refs/heads/{BRANCH}"
        ):
            self.lies.append(f"plan refused is {plan.refused}, {rejecting} begin to reject")
        if wrong or (verdict == "success") == plan.refused:
            self.lies.append(f"comment: {head[:7]} was planned, {verdict}: {plan.text[:200]!r}")
        return plan

    def _comment(self) -> str:
        comments: list[dict[str, Any]] = self.forge.comments.get(self.number, [])
        return comments[-1]["body"] if comments else ""

    # Events -------------------------------------------------------------------------------------

    async def _pull(self) -> None:
        """Merge a pull request, and compare what happened with its comment."""
        before, asked, wanted = look(self.program.objects), self._all(), self._wanted()
        self._write(self._edited(EDITS))
        plan = await self._opened()
        self._merge()
        merged = self.checkout.tip("main")
        self.forge.commits.add(merged)
        self.forge.end_pull(self.number, "merged", merged)
        after = await self._rest()
        if self.lies:
            return
        changed = rewritten(asked, self._all())
        self._compare(plan, before, after, changed, refused=plan.refused)
        await self.program.stage.rest(LOOK_S)
        now = self._wanted()
        moved = frozenset(f"shop/{name}" for name in UNITS if now[name] != wanted[name])
        if plan.text:
            self.lies += outcome_lies(self._comment(), merged, self.expected, moved)

    async def _declined(self) -> None:
        """Close a pull request without a merge: nothing changes."""
        self._write(f"declined: {self._edited(EDITS)}")
        plan = await self._opened()
        run_git(self.program.origin.work, "switch", "-q", "main")
        self.checkout.withdraw(BRANCH)
        self.forge.end_pull(self.number, "closed")
        self.copies.pop()
        self.copy = self.copies[-1].duplicate()
        await self._rest()
        if plan.text and CLOSED not in self._comment().partition("\n### ")[2].partition("\n")[0]:
            self.lies.append(f"comment: closed, and it says {self._comment()[:200]!r}")

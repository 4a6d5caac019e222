"""Laws of a unit over random histories of its source, while everything fails in turn.

Nothing is deleted outside the rules of pruning, the last good state keeps being healed, and a
newer commit always wins. More: HYPOTHESIS_PROFILE=night pytest tests/laws/test_history_laws.py
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.git.repos import run_git, serve
from tests.gitops.stage import Stage
from tests.laws.examples import one_in
from tests.laws.history import Player

NAMES = "abcdef"
WANTED = st.dictionaries(st.sampled_from(NAMES), st.sampled_from("123"), min_size=1, max_size=6)
STEPS = st.one_of(
    st.tuples(st.just("commit"), WANTED),
    st.tuples(st.just("commit"), WANTED),
    st.tuples(st.just("half"), WANTED, st.sampled_from(["restart", "bad", "lose"])),
    st.tuples(st.just("torn"), WANTED),
    st.tuples(st.just("rewrite"), WANTED),
    st.tuples(st.sampled_from(["bad", "remove", "lose", "mend", "restart", "meddle", "keep"])),
)


def live_through(player: Player, steps: list[tuple[Any, ...]]) -> None:
    stage = player.stage

    async def script() -> None:
        left = list(steps)
        while left:
            async with stage.running():
                await player.look()
                await stage.rest(2)
                while left:
                    step = left.pop(0)
                    anew = await player.play(*step)
                    await stage.rest(3 if anew else 40)
                    if anew:
                        break
                    player.check((step, left))
            player.cut_at = 0
            stage.start_over()
            player.started_over()
        async with stage.running():
            await player.look()
            await stage.rest(60)
            player.check("the last start")
            player.mend()
            player.commit({"a": "last"})
            await player.look()
            await stage.rest(60)
            player.check("the last commit")

    stage.play(script)


KEPT_UNTIL_TOO_LATE: list[tuple[Any, ...]] = [
    ("commit", {"a": "1", "b": "1"}), ("keep",), ("commit", {"a": "1"}), ("bad",),
]  # fmt: skip
MEDDLED_WHILE_TORN: list[tuple[Any, ...]] = [
    ("commit", {"a": "1"}), ("torn", {"a": "2"}), ("meddle",),
]  # fmt: skip


PRUNED_AFTER_TORN: list[tuple[Any, ...]] = [
    ("commit", {"b": "1"}), ("torn", {"a": "1"}), ("commit", {"a": "1"}),
]  # fmt: skip

MEDDLED_AFTER_A_TORN_START: list[tuple[Any, ...]] = [
    ("commit", {"a": "1"}), ("commit", {"a": "2"}), ("restart",), ("torn", {"a": "3"}),
    ("restart",), ("meddle",),
]  # fmt: skip
REWRITTEN_WHILE_DELETIONS_WAIT: list[tuple[Any, ...]] = [
    ("commit", dict.fromkeys("abcdef", "1")), ("commit", {"a": "1"}),
    ("rewrite", dict.fromkeys("abcdef", "2")), ("commit", {"a": "1", "c": "3", "d": "2"}),
]  # fmt: skip


@settings(max_examples=one_in(6))
@example(steps=KEPT_UNTIL_TOO_LATE, forced=False)
@example(steps=REWRITTEN_WHILE_DELETIONS_WAIT, forced=False)
@example(steps=PRUNED_AFTER_TORN, forced=False)
@example(steps=MEDDLED_WHILE_TORN, forced=False)
@example(steps=MEDDLED_AFTER_A_TORN_START, forced=False)
@given(steps=st.lists(STEPS, min_size=3, max_size=8), forced=st.booleans())
def test_whatever_happens_to_the_source(steps: list[tuple[Any, ...]], forced: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, closing(Stage(Path(folder))) as stage:
        live_through(Player(stage, rewriting=forced), steps)


FAR_STEPS = st.one_of(
    st.tuples(st.just("commit"), WANTED),
    st.tuples(st.just("commit"), WANTED),
    st.tuples(st.just("half"), WANTED, st.sampled_from(["restart", "bad", "silence", "cut"])),
    st.tuples(st.just("rewrite"), WANTED),
    st.tuples(
        st.sampled_from(
            ["silence", "cut", "bad", "remove", "lose", "mend", "mend", "restart", "meddle"]
        )
    ),
)


@settings(max_examples=one_in(25))
@given(
    steps=st.lists(FAR_STEPS, min_size=3, max_size=8), forced=st.booleans(), filters=st.booleans()
)
def test_whatever_happens_on_the_way_from_a_server(
    steps: list[tuple[Any, ...]], forced: bool, filters: bool
) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        closing(Stage(folder := Path(name))) as stage,
    ):
        run_git(stage.origin.bare, "config", "uploadpack.allowFilter", str(filters).lower())
        player = Player(stage, rewriting=forced)
        with serve(folder, faults=player.past.faults) as base:
            stage.server = f"{base}/origin.git"
            stage.start_over()
            live_through(player, steps)

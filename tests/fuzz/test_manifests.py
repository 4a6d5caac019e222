"""Mutated sets of manifests of every kind: each is taken or refused at its place, and none raises.

A set goes the way of a commit: read, checked, planned against an empty cluster and against one
that has what was there before, forecast, observed and recorded.
"""

from __future__ import annotations

import traceback
from collections import Counter
from random import Random  # noqa: TID251  drawn from the seed of the run

import pytest

from tests.conftest import NIGHT
from tests.fuzz.commits import Taken, complaints, seeds, taken, text_of
from tests.fuzz.mutations import corrupted, mutated

SHARDS = 6  # for as many processes
SETS = (300_000 if NIGHT else 30_000) // SHARDS
FORECAST = 0.02  # of the sets: playing a rollout takes longer than everything around it


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_set_of_manifests_raises(fuzz_seed: int, shard: int) -> None:
    draw = Random(f"{fuzz_seed}/{shard}")
    sound = [obj for obj in seeds() if not taken(text_of([obj])).errors]
    assert len(sound) > 50
    found: Counter[str] = Counter()
    examples: dict[str, bytes] = {}
    for _ in range(SETS):
        objects = [draw.choice(seeds()) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
        changed = [mutated(draw, obj) if draw.random() < 0.8 else obj for obj in objects]
        data = text_of(changed)
        if draw.random() < 0.02:
            data = corrupted(draw, data)
        before = taken(text_of([obj for obj in objects if obj in sound]))
        for complaint in judged(data, before, forecast=draw.random() < FORECAST):
            found[complaint] += 1
            examples.setdefault(complaint, data[:2_000])
    assert not found, [(c, n, examples[c]) for c, n in found.most_common(10)]


def judged(data: bytes, before: Taken, *, forecast: bool) -> list[str]:
    """What is wrong with how a set was treated, an exception by its place."""
    try:
        return [complaint[:120] for complaint in complaints(data, before, forecast=forecast)]
    except Exception as error:  # the finding of this test
        last = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__} in {last.filename}:{last.lineno}"]

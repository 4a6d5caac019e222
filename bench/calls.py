"""Work of the core in function calls, and writes of a rollout, against recorded figures.

Both are nearly the same in each run on each machine, so a step back is found where CPU time is
noise. `python -m bench.calls` fails when a figure exceeds the recorded one by more than a quarter;
`--record` records those of now.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bench import injection, planning, preview, reading, sidecars, templates, writes
from bench.timing import METER, Row, calls_of
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest
from tests.laws.foretell import CLONESETS
from tests.laws.judge import Judge
from tests.laws.live import play
from tests.worlds import SPACE, Lab, cloneset, template

RECORDED: Final = Path(__file__).with_suffix(".json")
LIMIT: Final = 1.25  # of the recorded figure
PODS: Final = 20
_RECORD: Final = "--record"
_COUNTED: Final[tuple[Callable[[], Iterator[Row]], ...]] = (
    templates.rows, planning.rows, sidecars.rows, preview.rows, writes.rows, injection.rows,
    reading.rows,
)  # fmt: skip
_POLICIES: Final[Mapping[str, str]] = {"in place": "InPlaceIfPossible", "recreated": "ReCreate"}


def main(words: list[str]) -> int:
    """Compare with the recorded figures; exit code 1 when one is exceeded."""
    if words not in ([], [_RECORD]):
        sys.stderr.write(f"usage: python -m bench.calls [{_RECORD}]\n")
        return 2
    version = ".".join(platform.python_version_tuple()[:2])
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if not words and recorded.get("python") != version:
        sys.stdout.write(
            f"not compared: the figures were recorded with Python {recorded.get('python')}, and "
            f"Python {version} calls other functions\n"
        )
        return 0
    found = figures()
    if words:
        RECORDED.write_text(json.dumps({"python": version, "figures": found}, indent=2) + "\n")
        return 0
    return compared(found, recorded["figures"])


def figures() -> dict[str, int]:
    """Return the calls of each measured piece of work, and the writes of each rollout."""
    taken: list[int] = []

    def meter(work: Callable[[], Any]) -> float:
        taken.append(calls_of(work))
        return float(taken[-1])

    found: dict[str, int] = {}
    before = METER.set(meter)
    try:
        for rows in _COUNTED:
            for row in rows():
                found[f"{row.name}: calls"] = sum(taken)
                taken.clear()
    finally:
        METER.reset(before)
    for how, policy in _POLICIES.items():
        found[f"{PODS} pods {how}: writes of the controller"] = _writes(policy)
    return found


def _writes(policy: str) -> int:
    """Writes of the live controller while the pods of a CloneSet take another image."""
    lab = Lab()
    lab.apply(cloneset(replicas=PODS, maxUnavailable="20%", podUpdatePolicy=policy))
    lab.run()
    write = ApiRequest(
        verb="patch",
        resource=CLONESETS,
        namespace=SPACE,
        name="web",
        body={"spec": {"template": template("app:v2")}},
        content_type=MERGE_PATCH,
    )
    judge = Judge(lab.world)
    play(lab.world, lab.now, write, judge=judge)
    assert not judge.broken, judge.broken
    assert judge.owner.status["updatedReadyReplicas"] == PODS
    return len(judge.writes)


def compared(found: Mapping[str, int], recorded: Mapping[str, int]) -> int:
    """Print each figure with its ratio to the recorded one; 1 when one is too large or missing."""
    wrong = [f"{name}: not measured any more" for name in recorded if name not in found]
    for name, value in found.items():
        before = recorded.get(name)
        ratio = f"{value / before:.2f}" if before else "new"
        sys.stdout.write(f"{name:<68}{value:>12,} {ratio:>6}\n")
        if not before:
            wrong.append(f"{name}: not recorded")
        elif value > before * LIMIT:
            wrong.append(f"{name}: {value:,}, recorded {before:,}")
    for line in wrong:
        sys.stdout.write(f"{line}\n")
    if wrong:
        sys.stdout.write("next: mend it, or record what is wanted: make calls ARGS=--record\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

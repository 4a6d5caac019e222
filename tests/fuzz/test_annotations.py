"""Any value of every annotation and label that gitkruise obeys, in git and on live objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from random import Random  # noqa: TID251  drawn from the seed of the run
from types import ModuleType
from typing import Any, Final

import pytest

from gitkruise.planner.sync import annotations as marks
from gitkruise.planner.sync import apply_order, dependencies, hooks
from gitkruise.wire.primitives.names import Obj
from tests.conftest import NIGHT
from tests.fuzz.commits import Taken, complaints, taken, text_of
from tests.fuzz.mutations import EXTREMES
from tests.gitops.stage import config_map
from tests.worlds import cloneset, template

VALUES: Final = 100_000 if NIGHT else 10_000
NAME: Final = re.compile(r"[a-z0-9.-]+\.[a-z]+/[a-zA-Z.-]+")
PIECES: Final = (
    *("2026-11-21T20:00:00Z", "Disabled", "Merge", "ifnotpresent", "true", "1", "-1", "1e9"),
    *(
        "/namespaces/shop/ConfigMap/a",
        "apps/Deployment/x",
        "PreSync",
        "Sync",
        "Skip",
        "Prune=false",
    ),
    *("status.phase == 'Up'", "size([1].map(x, x)) > 0", "Replace=true", "confirm", "hook"),
    *(" ", ",", ", ", "/", "//", ":", "=", "\n", "\t", "\x00", "\x1b[31m", "\u202e", "ß", "\ud83d"),
    *(
        "9" * 40,
        "'",
        '"',
        "(",
        "[",
        "{",
        "\\",
        "%",
        "$(x)",
        "٣",
        "²",
        "𝟙",
        "-",
        "+",
        "0x1",
        "1_000",
    ),
)
JOB: Final[Obj] = {
    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"},
    "spec": {"template": template(restartPolicy="Never")},
}  # fmt: skip
CARRIERS: Final[tuple[Obj, ...]] = (config_map("a", x="1"), JOB, cloneset("web", 2))


def obeyed() -> list[str]:
    """Every name of an annotation or label in the modules that read them."""
    found = {
        name for module in (marks, hooks, dependencies, apply_order) for name in _names(module)
    }
    assert {"gitkruise.io/wave", "gitkruise.io/apply", marks.HOLD} <= found
    return sorted(found)


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, ModuleType):
        for item in vars(value).values():
            if isinstance(item, str | tuple | frozenset | dict):
                yield from _names(item)
    elif isinstance(value, str):
        yield from [value] if NAME.fullmatch(value) else []
    elif isinstance(value, Mapping):
        for item in (*value, *value.values()):
            yield from _names(item)
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from _names(item)


def value(draw: Random) -> Any:
    """A value of any type, or a text of pieces that mean something somewhere."""
    if draw.random() < 0.3:
        return draw.choice(EXTREMES)
    return "".join(draw.choice(PIECES) for _ in range(draw.randint(0, 4)))


def annotated(obj: Obj, where: str, name: str, value: Any) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], where: {name: value}}}


@pytest.mark.parametrize("name", obeyed())
def test_no_value_raises(fuzz_seed: int, name: str) -> None:
    draw = Random(f"{fuzz_seed}/{name}")
    plain = {obj["kind"]: taken(text_of([obj])) for obj in CARRIERS}
    for _ in range(VALUES // len(obeyed()) + 1):
        obj, text = draw.choice(CARRIERS), value(draw)
        where = draw.choice(("annotations", "annotations", "labels"))
        data = text_of([annotated(obj, where, name, text)])
        before = draw.choice((plain[obj["kind"]], Taken((), ())))
        live = {name: text} if isinstance(text, str) and draw.random() < 0.5 else {}
        if live:
            data = text_of([obj])
        wrong = [*complaints(data, before, forecast=False, marks=live)]
        assert not wrong, (data, live, wrong)

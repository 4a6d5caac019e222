"""Checks of ordering annotations: known words, known objects, no circles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitkruise.errors import Finding, Severity, SourcePlace
from gitkruise.model.gitops.document import Desired, Document
from gitkruise.planner.sync.annotations import APPLY_WORDS, HOLD
from gitkruise.planner.sync.dependencies import DEPENDS_ON, FORM, cycle, strangers, too_early
from gitkruise.planner.sync.hooks import ARGO_HOOK, FAILURE, HOOK, LAST, POST, PRE
from gitkruise.printable import shown
from gitkruise.wire.primitives.paths import get


def unreadable(document: Document, text: str) -> Finding:
    """Return the finding for an invalid id in a depends-on annotation."""
    return Finding(
        code="GK2011",
        message=f'"{text}" does not name an object to wait for',
        places=(document.place(_annotation(document)),),
        notes=(("next", f"write {FORM}; several are joined by commas"),),
    )


def no_hook(document: Document, what: str) -> Finding:
    """Return the finding for a hook of an unknown word or kind."""
    notes = get(document.obj, "metadata", "annotations", default={})
    name = next(n for n in (HOOK, ARGO_HOOK) if n in notes)
    return Finding(
        code="GK2015",
        message=f"{what} is no hook that this version runs",
        places=(document.place(("metadata", "annotations", name)),),
        notes=(
            ("why", "what is meant to run around a change must not be applied as a part of it"),
            ("next", f"make it a Job with {HOOK}: {PRE}, {POST}, {FAILURE} or {LAST}"),
        ),
    )


def no_word(document: Document, word: str) -> Finding:
    """Return the finding for an unknown word for applying."""
    notes = get(document.obj, "metadata", "annotations", default={})
    name = next(n for n in APPLY_WORDS if n in notes)
    return Finding(
        code="GK2016",
        message=f'"{word}" is no way to apply an object',
        places=(document.place(("metadata", "annotations", name)),),
        notes=(("next", "use Override, Merge, IfNotPresent or Ignore"),),
    )


def impossible(objects: Sequence[Desired]) -> Iterator[Finding]:
    """Findings for an order that can never complete."""
    for d, key in strangers(objects):
        yield Finding(
            code="GK2012",
            message=f"{d.key} waits for {key}, which is not in this unit",
            places=(d.document.place(_annotation(d.document)),),
            notes=(
                ("why", "an object can only wait for what the same unit applies"),
                ("next", "correct the id, or let the unit depend on the other by dependsOn"),
            ),
            object=str(d.key),
        )
    for d, other in too_early(objects):
        yield Finding(
            code="GK2013",
            message=f"{d.key} waits for {other.key}, whose turn is later",
            places=(
                d.document.place(_annotation(d.document), label=_turn(d)),
                other.document.place(("kind",), key=True, label=_turn(other)),
            ),
            notes=(("next", "give both one wave, or the awaited object an earlier one"),),
            object=str(d.key),
        )
    by_key = {d.key: d for d in objects}
    circle = cycle({d.key: d.depends_on for d in objects})
    if circle:
        yield Finding(
            code="GK2014",
            message=f"objects wait for each other: {' → '.join(map(str, circle))}",
            places=tuple(
                by_key[key].document.place(_annotation(by_key[key].document)) for key in circle[:-1]
            ),
            notes=(("next", "take one of the dependencies out"),),
            object=str(circle[0]),
        )


def _turn(d: Desired) -> str:
    return f"wave {d.wave}" if d.stage else "before every wave"


def _annotation(document: Document) -> tuple[str, ...]:
    notes = get(document.obj, "metadata", "annotations", default={})
    name = next((n for n in DEPENDS_ON if n in notes), DEPENDS_ON[0])
    return ("metadata", "annotations", name)


def no_hold(what: str, text: str, places: tuple[SourcePlace, ...] = ()) -> Finding:
    """Return the finding for a hold annotation without a time."""
    return Finding(
        code="GK2018",
        message=f"{HOLD} of {what} does not begin with a time: {shown(text, 80)}",
        places=places,
        notes=(
            ("why", "a hold without an end would be forgotten"),
            ("next", f'{HOLD}: "2026-11-21T20:00:00Z why"'),
        ),
        object=what,
        severity=Severity.ERROR if places else Severity.WARNING,
    )

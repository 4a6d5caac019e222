"""A SidecarSet's rollout in words: who follows live, who cannot and why, what new pods get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from gitkruise.model.gitops.report import RolloutView, Sentence, Span, StepView, Tone
from gitkruise.model.planning.forecast import HOT, RolloutForecast, Sidecars
from gitkruise.model.planning.trace import IN_PLACE
from gitkruise.planner.report.blast_radius import pods_named, some
from gitkruise.planner.report.stops import stop_of
from gitkruise.printable import many

_NAMES_SHOWN: Final = 3
_WAYS: Final = {IN_PLACE: "in place", HOT: "hot (two containers take turns)"}


def sidecars_view(
    p: RolloutForecast, sidecars: Sidecars, source: str, *, live: bool
) -> RolloutView:
    """`p` in words. `live`: its pods have their real names. `source`: `file:line` of its object."""
    stays = max(p.replicas - p.max_unavailable, 0)
    budget = f"maxUnavailable {p.max_unavailable}; {stays} of {p.replicas} pods stay up"
    stop = stop_of(p, source)
    return RolloutView(
        prediction=p,
        effect=tuple(_effect(p, sidecars, stop, live=live)),
        budget=budget if p.steps else "",
        steps=tuple(_steps(p, live=live)),
        hold=stop if p.steps else (),
        notes=(_born(sidecars),),
    )


def _effect(
    p: RolloutForecast, sidecars: Sidecars, stop: Sentence, *, live: bool
) -> Iterator[Sentence]:
    if not p.previous:
        yield (Span("no running pod gets it: sidecars are injected when a pod is created"),)
        return
    moves = Counter(move.how for step in p.steps for move in step.moves)
    ways = [f"{moves[way]} {words}" for way, words in _WAYS.items() if moves[way]]
    have = f", {p.updated_before} of them have it" if p.updated_before else ""
    if ways:
        share = f"{sum(moves.values())} of {many(p.replicas)} take it live"
        yield Span(share, Tone.STRONG), Span(f": {' and '.join(ways)}{have}")
    else:
        match = f"{many(p.replicas)} match{have}" if p.replicas else "no pod matches"
        still = f"the idle container of {many(sidecars.emptied)} gets the new empty image"
        yield (Span(f"{still if sidecars.emptied else 'no running pod changes'}; {match}"),)
    for why, names in _reasons(sidecars).items():
        yield Span(f"{len(names)} cannot while they run", Tone.ALARM), Span(f": {why}")
        if live:
            yield (Span(f"  {some(names, most=_NAMES_SHOWN)}"),)
    if sidecars.left_out:
        yield (Span(f"{sidecars.left_out} left out by updateStrategy.selector"),)
    if p.partition:
        yield (Span(f"{p.partition} kept on {p.previous} by the partition"),)
    if not p.steps and stop:
        yield stop


def _reasons(sidecars: Sidecars) -> dict[str, list[str]]:
    """Pods by why they cannot follow."""
    found: dict[str, list[str]] = {}
    for pod, why in sidecars.barred:
        found.setdefault(why, []).append(pod)
    return found


def _steps(p: RolloutForecast, *, live: bool) -> Iterator[StepView]:
    done, total = p.updated_before, max(p.replicas, 1)
    for step in p.steps:
        done += len(step.moves)
        counts = Counter(move.how for move in step.moves)
        words = ", ".join(f"{n} {how}" for how, n in sorted(counts.items()))
        names = pods_named(step, str, most=_NAMES_SHOWN) if live else words
        yield StepView(done=min(done, p.replicas), total=total, moves=names, lasts=step.lasts)


def _born(sidecars: Sidecars) -> str:
    """Sidecars of pods created from now on."""
    if not sidecars.born_with:
        return "new pods get none: injection is paused"
    images = ", ".join(f"{name} {image}" for name, image in sidecars.born)
    return f"new pods get {sidecars.born_with}: {images}"

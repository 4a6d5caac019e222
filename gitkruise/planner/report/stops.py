"""Stops of a foreseen rollout before all pods are updated, and the next step of the user."""

from __future__ import annotations

from typing import Final

from gitkruise.model.gitops.report import Sentence, Span, Tone
from gitkruise.model.planning.forecast import RolloutForecast
from gitkruise.wire.primitives.names import ObjectKey, named

# The words of an end that git asks for, and the verb of the command that goes on.
_ASKED: Final = {
    "PartitionReached": ("⏸ hold", "promote"),
    "CanaryReached": ("⏸ hold", "promote"),
    "Paused": ("▮ paused", "resume"),
}
# Those after which no commit is needed.
_OTHERS: Final = {
    "OnDelete": "⏸ hold  the others are updated when they are deleted",
    "CannotUpdateInPlace": "⏸ hold  the others follow when they are replaced",
    "NotSelected": "⏸ hold  updateStrategy.selector leaves the others out",
    "NotUpdate": "running pods keep what they have: updateStrategy.type is NotUpdate",
}


def stop_of(p: RolloutForecast, source: str) -> Sentence:
    """Return where `p` stops and what to do next; empty when every pod is updated.

    `source` is the place of the object in git, as `file:line`.
    """
    if p.hold in _ASKED:
        words, verb = _ASKED[p.hold]
        return (Span(f"{words}  next: {next_move(verb, p.key, source.rpartition(':')[0])}"),)
    if p.hold in _OTHERS:
        return (Span(_OTHERS[p.hold]),)
    if not p.hold:
        return ()
    return Span("✗ stuck", Tone.ALARM), Span(f"  {p.message or 'pods do not become available'}")


def next_move(verb: str, key: ObjectKey, source: str) -> str:
    """Return the command that writes the next commit of an object.

    Fields of a chart are computed from values, which no command edits.
    """
    if is_template(source):
        return f"a commit that changes the values of its chart ({source})"
    return f"gitkruise {verb} {named(key)}"


def is_template(source: str) -> bool:
    """Return whether a chart may render an object of `file:line`: by the names that Helm gives.

    A plain manifest in a folder `templates` is one, too: for both a commit is the next step.
    """
    file = source.partition(":")[0]
    return "/templates/" in f"/{file}" or file.endswith(("Chart.yaml", ".tgz"))

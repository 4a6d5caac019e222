"""Fingerprints of the parts of a running configuration: a part with an equal one keeps running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from gitkruise.git.plumbing.refs import repository_place
from gitkruise.model.gitops.config import Config, GitSource, Receiver, Sink, Unit
from gitkruise.model.gitops.config import resolve_reference as resolve
from gitkruise.planner.notify.commit_statuses import aggregate_context

Mark = object  # compared, and nothing else
ENDPOINTS: Final = "endpoints"  # all Receivers share one server


def source_of(unit: Unit) -> str:
    """Return `namespace/name` of the unit's source."""
    return resolve(unit.spec.source_ref, unit.namespace)


def sink_of(unit: Unit) -> str:
    """Return `namespace/name` of the unit's sink, or ""."""
    return resolve(unit.spec.sink_ref, unit.namespace) if unit.spec.sink_ref else ""


def written_to(sink: Sink) -> str:
    """Return `namespace/name` of the source whose repository has the sink's branch, or ""."""
    return resolve(sink.spec.git.source_ref, sink.namespace) if sink.spec.git else ""


def status_place(config: Config, name: str) -> tuple[object, str] | None:
    """Return what names the status branch of a Sink (repository, branch), which two Sinks may have
    in common; None without one."""
    sink = config.sinks[name]
    if sink.spec.git is None:
        return None
    url = config.sources[written_to(sink)].spec.url
    return repository_place(url) or url, sink.spec.git.branch


def listened_for(receiver: Receiver) -> tuple[str, ...]:
    """Return the sources that a Receiver names; () means all."""
    return tuple(resolve(ref, receiver.namespace) for ref in receiver.spec.sources)


def place_of(source: GitSource) -> str:
    """Return the name of the repository: sources with the same URL and Secret are polled
    together."""
    ref = source.spec.secret_ref
    return f"{source.spec.url} {resolve(ref, source.namespace) if ref else ''}"


def shared_names(config: Config, name: str) -> frozenset[str]:
    """Return which parts of a Sink's feedback on a forge another Sink would overwrite: it has the
    same repository, and the same name for the part ("comment", "check", "status", "deployment")."""
    own = _names_on_forge(config.sinks[name]).items()
    others = (sink for other, sink in config.sinks.items() if other != name)
    return frozenset(part for other in others for part, _ in own & _names_on_forge(other).items())


def forge_place(sink: Sink) -> tuple[str, ...] | None:
    """Return what names the repository of a Sink on its forge; None without a forge."""
    forge = sink.spec.forge
    if forge is None:
        return None
    return forge.type, forge.url.rstrip("/"), forge.repo.strip("/").casefold()


def _names_on_forge(sink: Sink) -> dict[str, tuple[str, ...]]:
    """Return the repository and the name of each part of a Sink's feedback."""
    forge = sink.spec.forge
    if forge is None:
        return {}
    pulls, deployment = forge.pull_request, forge.deployment
    names = {
        "comment": pulls.comment if pulls.comment == "plan" else "",
        "check": pulls.check,
        "status": aggregate_context(forge.commit_status.context, ""),
        "deployment": deployment.environment if deployment is not None else "",
    }
    place = forge_place(sink) or ()
    return {part: (*place, names_of_part) for part, names_of_part in names.items() if names_of_part}


class Fingerprints:
    """Fingerprints of the sources, sinks and units that a configuration names."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.sources: dict[str, Mark] = {n: s.spec for n, s in config.sources.items()}
        self.sinks: dict[str, Mark] = {
            n: (s.spec, self.sources.get(written_to(s))) for n, s in config.sinks.items()
        }
        self.units: dict[str, Mark] = {
            n: (
                msgspec.structs.replace(u, origin=None),
                self.sources.get(source_of(u)),
                self.sinks.get(sink_of(u)),
            )
            for n, u in config.units.items()
        }


@dataclass(frozen=True, slots=True)
class DerivedComponents:
    """Fingerprints of the followers (by repository), notifiers (by sink) and receivers."""

    follows: Mapping[str, Mark]
    notifications: Mapping[str, Mark]
    endpoints: Mapping[str, Mark]

    @classmethod
    def of(
        cls, marks: Fingerprints, sources: Mapping[str, Mark], units: Mapping[str, Mark]
    ) -> DerivedComponents:
        """Return them for the `sources` and `units` that run."""
        config = marks.config
        readers: dict[str, list[Mark]] = {}
        marks_by_sink: dict[str, list[Mark]] = {}
        for name, mark in units.items():
            unit = config.units[name]
            readers.setdefault(source_of(unit), []).append((name, mark))
            marks_by_sink.setdefault(sink_of(unit), []).append((name, mark))
        follows: dict[str, list[Mark]] = {}
        for name, mark in sources.items():
            place = place_of(config.sources[name])
            follows.setdefault(place, []).append((name, mark, readers.get(name)))
        notifications = {
            name: (sink.spec, marks_by_sink.get(name), shared_names(config, name))
            for name, sink in config.sinks.items()
            if sink.spec.forge or sink.spec.notify
        }
        receivers = {n: r.spec for n, r in config.receivers.items()}
        endpoints = {ENDPOINTS: (receivers, follows, notifications)} if receivers else {}
        return cls(follows, notifications, endpoints)

"""Errors of components that do not run, and of components that need them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from gitkruise.errors import (
    ApiError,
    ClusterFailed,
    Concern,
    Crashed,
    DiagnosticError,
    Finding,
    Forbidden,
    NotFound,
)
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
Name = tuple[str, str]  # (kind, namespace/name)


class ComponentErrors(Mapping[Name, Finding]):
    """The finding for each part that cannot be made, until `clear`."""

    def __init__(self, *, patient: bool = False) -> None:
        """`patient`: the process tries again what a remote keeps from being made."""
        self._patient = patient
        self._found: dict[Name, Finding] = {}
        self._away: dict[Name, str] = {}  # as it was logged

    def __getitem__(self, name: Name) -> Finding:
        return self._found[name]

    def __iter__(self) -> Iterator[Name]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def clear(self) -> None:
        """All is to be tried again."""
        self._found = {}

    def blocked(self, name: Name, *needs: Name) -> bool:
        """Return whether a component that this one needs does not run; its error is this one's."""
        for needed in needs:
            why = self._found.get(needed)
            if why is not None:
                message = f"{' '.join(needed)}: {why.message}"
                self._found.setdefault(name, replace(why, message=message))
        return name in self._found

    def failed(self, name: Name, error: DiagnosticError | ApiError, *, raised: bool) -> None:
        """Something could not be made. When it is to be `raised`, raises `error`, or ClusterFailed
        that names the part; never a crash, or the silence of a remote that only records need: both
        concern this part alone."""
        found = error.findings[0] if isinstance(error, DiagnosticError) else _finding(error)
        if raised and isinstance(error, ApiError):
            raise ClusterFailed(replace(found, message=f"{' '.join(name)}: {found.message}"))
        awaited = self._patient and name[0] == "Sink" and found.concern is Concern.REMOTE
        if raised and not (awaited or isinstance(error, Crashed)):
            raise error
        self._found[name] = found

    def log_away(self, *, apart: Collection[Name] = ()) -> None:
        """Log each component whose remote does not answer, once until it does; those `apart` are
        reported elsewhere."""
        found = {name: f for name, f in self._found.items() if f.concern is Concern.REMOTE}
        told, self._away = self._away, {name: f.message for name, f in found.items()}
        for name, finding in found.items():
            if name not in apart and told.get(name) != finding.message:
                kind, place = name
                log.warning(log_line("not-started", kind=kind, name=place, error=finding))


def _finding(error: ApiError) -> Finding:
    code, following = "GK4102", "gitkruise doctor cluster"
    if isinstance(error, Forbidden):
        code, following = "GK4301", "gitkruise doctor rbac --print-fix | kubectl apply -f -"
    elif isinstance(error, NotFound):
        code, following = "GK4203", "create it, or correct the reference"
    notes = (("unchanged", "what runs stays as it is"), ("next", following))
    return Finding(code=code, message=error.message, notes=notes)

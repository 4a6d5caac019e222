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
        """`patient`: the process tries again what cannot be made, and goes on with the rest."""
        self._patient = patient
        self._put_off: DiagnosticError | ApiError | None = None  # the first that `rest_runs` raises
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
        self._found, self._put_off = {}, None

    def rest_runs(self, rest: object) -> None:
        """Raise what keeps a required part from being made where there is no `rest` to run."""
        if self._put_off is not None and not rest:
            raise self._put_off

    def blocked(self, name: Name, *needs: Name) -> bool:
        """Return whether a component that this one needs does not run; its error is this one's."""
        for needed in needs:
            why = self._found.get(needed)
            if why is not None:
                message = f"{' '.join(needed)}: {why.message}"
                self._found.setdefault(name, replace(why, message=message))
        return name in self._found

    def failed(
        self, name: Name, error: DiagnosticError | ApiError, *, raised: bool, shared: bool = False
    ) -> Finding:
        """Note what could not be made, and return it. When it is to be `raised`, raises `error`, or
        ClusterFailed that names the part; never a crash, or the silence of a remote that only
        records need: both concern this part alone. A patient process goes on without any part while
        units run, except for what is `shared`: an address of the process.
        """
        found = error.findings[0] if isinstance(error, DiagnosticError) else _finding(error)
        awaited = name[0] == "Sink" and found.concern is Concern.REMOTE
        if raised and not isinstance(error, Crashed) and not (self._patient and awaited):
            if isinstance(error, ApiError):
                named = replace(found, message=f"{' '.join(name)}: {found.message}")
                error = ClusterFailed(named)
            if shared or not self._patient:
                raise error
            self._put_off = self._put_off or error
        self._found[name] = found
        return found

    def log_waiting(self, hooks: Mapping[str, str], *, apart: Collection[Name] = ()) -> None:
        """Log each component that waits for what it needs, once until it runs, and then the address
        of a Receiver in `hooks`; those `apart` are reported elsewhere, as crashes are."""
        found = {n: f for n, f in self._found.items() if f.concern is not Concern.PROGRAM}
        before, self._away = self._away, {name: f.message for name, f in found.items()}
        for name, finding in found.items():
            if name not in apart and before.get(name) != finding.message:
                (kind, place), following = name, dict(finding.notes).get("next", "")
                more = {"next": following} if following else {}
                log.warning(log_line("not-started", kind=kind, name=place, error=finding, **more))
        for kind, place in before.keys() - found.keys():
            if kind == "Receiver" and place in hooks:
                log.warning(log_line("receiver-served", receiver=place, url=hooks[place]))


def _finding(error: ApiError) -> Finding:
    code, following = "GK4102", "gitkruise doctor cluster"
    if isinstance(error, Forbidden):
        code, following = "GK4301", "gitkruise doctor rbac --print-fix | kubectl apply -f -"
    elif isinstance(error, NotFound):
        code, following = "GK4203", "create it, or correct the reference"
    notes = (("unchanged", "what runs stays as it is"), ("next", following))
    return Finding(code=code, message=error.message, notes=notes)

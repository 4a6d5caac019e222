"""Errors of components that do not run, and of components that need them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

Name = tuple[str, str]  # (kind, namespace/name)


class ComponentErrors(Mapping[Name, Finding]):
    """The finding for each part that cannot be made, until `clear`."""

    def __init__(self, *, patient: bool = False) -> None:
        """`patient`: the process tries again what a remote keeps from being made."""
        self._patient = patient
        self._found: dict[Name, Finding] = {}

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


def _finding(error: ApiError) -> Finding:
    code, following = "GK4102", "gitkruise doctor cluster"
    if isinstance(error, Forbidden):
        code, following = "GK4301", "gitkruise doctor rbac --print-fix | kubectl apply -f -"
    elif isinstance(error, NotFound):
        code, following = "GK4203", "create it, or correct the reference"
    notes = (("unchanged", "what runs stays as it is"), ("next", following))
    return Finding(code=code, message=error.message, notes=notes)

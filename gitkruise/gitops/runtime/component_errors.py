"""Errors of components that do not run, and of components that need them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gitkruise.errors import ApiError, Crashed, DiagnosticError, Finding, Forbidden, NotFound

Name = tuple[str, str]  # (kind, namespace/name)


class ComponentErrors(Mapping[Name, Finding]):
    """The finding for each part that cannot be made, until `clear`."""

    def __init__(self) -> None:
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
        """Something could not be made. Raises `error` when it is to be; a crash never is, for it
        concerns this part alone."""
        if raised and not isinstance(error, Crashed):
            raise error
        self._found[name] = _finding(error)


def _finding(error: DiagnosticError | ApiError) -> Finding:
    if isinstance(error, DiagnosticError):
        return error.findings[0]
    code = "GK4301" if isinstance(error, Forbidden) else "GK4102"
    if isinstance(error, NotFound):
        code = "GK4203"
    return Finding(code=code, message=error.message)

"""What an exception, or a group of them, means to a person."""

from __future__ import annotations

from collections.abc import Iterator

from gitkruise.errors import ApiError, Finding, GitkruiseError, Reported


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in a group of groups; an exception alone is its own leaf."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def findings_of(error: GitkruiseError) -> tuple[Finding, ...]:
    """What a person is told about an error gitkruise raised on purpose."""
    if isinstance(error, Reported):
        return error.findings
    if isinstance(error, ApiError):
        return (Finding(code="GK4001", message=f"the API server says: {error.message}"),)
    return (Finding(code="GK9011", message=str(error) or type(error).__name__),)

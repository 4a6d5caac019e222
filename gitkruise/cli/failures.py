"""What an exception, or a group of them, means to a person."""

from __future__ import annotations

from gitkruise.errors import ApiError, Finding, GitkruiseError, Reported


def findings_of(error: GitkruiseError) -> tuple[Finding, ...]:
    """What a person is told about an error gitkruise raised on purpose."""
    if isinstance(error, Reported):
        return error.findings
    if isinstance(error, ApiError):
        return (Finding(code="GK4001", message=f"the API server says: {error.message}"),)
    return (Finding(code="GK9011", message=str(error) or type(error).__name__),)

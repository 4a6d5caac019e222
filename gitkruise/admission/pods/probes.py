"""Probes and lifecycle hooks of containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.rules import formats
from gitkruise.admission.rules.engine import (
    EACH,
    Rule,
    Table,
    at_least,
    exactly_one,
    like,
    not_negative,
    one_of,
    port,
    port_number,
    present,
)
from gitkruise.admission.rules.field_errors import Path, invalid
from gitkruise.errors import Problem
from gitkruise.wire.primitives.names import Obj

PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
HOOKS: Final = ("postStart", "preStop")
_PROBE_KINDS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_KINDS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_WORDS: Final = ("must specify a handler type", "may not specify more than 1 handler type")
_TIMES: Final = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
    "failureThreshold",
)  # fmt: skip

_HANDLER: Final[tuple[Rule, ...]] = (
    (("exec", "command"), (present,)),
    (("httpGet", "path"), (present,)),
    (("httpGet", "port"), (port,)),
    (("httpGet", "scheme"), (present, one_of("HTTP", "HTTPS"))),
    (("httpGet", "httpHeaders", EACH, "name"), (like(formats.http_header),)),
    (("tcpSocket", "port"), (port,)),
    (("grpc", "port"), (port_number,)),
)
_PROBE: Final = Table(
    ((_TIMES,), (not_negative,)),
    (("terminationGracePeriodSeconds",), (at_least(1, "must be greater than 0"),)),
    *_HANDLER,
)
_HOOK: Final = Table(*_HANDLER)


def probe_problems(container: Obj, at: Path) -> Iterator[Problem]:
    """The three probes of a container (validateProbe and its callers)."""
    for kind in PROBES:
        probe = container.get(kind)
        if probe is None:
            continue
        path = (*at, kind)
        yield from exactly_one(probe, _PROBE_KINDS, path, _WORDS)
        yield from _PROBE.problems(probe, path)
        threshold = probe.get("successThreshold") or 0
        if kind != "readinessProbe" and threshold != 1:
            yield invalid((*path, "successThreshold"), threshold, "must be 1")
        grace = probe.get("terminationGracePeriodSeconds")
        if kind == "readinessProbe" and grace is not None:
            grace_path = (*path, "terminationGracePeriodSeconds")
            yield invalid(grace_path, grace, "must not be set for readinessProbes")


def hook_problems(lifecycle: Any, at: Path, grace_s: int, *, zero_sleep: bool) -> Iterator[Problem]:
    """postStart and preStop. `grace_s` is the pod's termination grace period."""
    for kind in HOOKS:
        hook = (lifecycle or {}).get(kind)
        if hook is None:
            continue
        path = (*at, kind)
        yield from exactly_one(hook, _HOOK_KINDS, path, _WORDS)
        yield from _HOOK.problems(hook, path)
        if hook.get("sleep") is not None:
            yield from _sleep_problems(hook["sleep"], (*path, "sleep"), grace_s, zero=zero_sleep)


def _sleep_problems(sleep: Obj, at: Path, grace_s: int, *, zero: bool) -> Iterator[Problem]:
    seconds = sleep.get("seconds") or 0
    if seconds > grace_s or seconds < 0 or (seconds == 0 and not zero):
        bound = "greater than or equal to 0" if zero else "greater than 0"
        text = f"must be {bound} and less than terminationGracePeriodSeconds ({grace_s})"
        yield invalid(at, seconds, text)

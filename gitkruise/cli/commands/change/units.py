"""gitkruise suspend, resume, reconcile: Units and GitSources of the cluster."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.command import (
    ExitCodesCommand,
    namespace_option,
    output_option,
    timeout_option,
)
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import API_VERSION, say, say_json, say_on_stderr
from gitkruise.cli.console.style import Style, wrapped
from gitkruise.cli.context.cluster import (
    ChosenCluster,
    ClusterChoice,
    cluster_options,
    connected,
)
from gitkruise.cli.context.local_repository import config_at_hand
from gitkruise.cli.context.next_commands import lines_carrying
from gitkruise.cli.context.resource_args import UNIT_NOUNS, named_unit, object_argument
from gitkruise.errors import ClusterFailed, DiagnosticError, Finding, NotFound, UsageProblem
from gitkruise.wire.primitives.names import CONFIG_FILE

if TYPE_CHECKING:
    from datetime import datetime

    from gitkruise.gitops.resources.user_requests import Target
    from gitkruise.model.gitops.config import Suspend
    from gitkruise.wire.primitives.names import Obj

_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(UNIT_NOUNS, "Unit"),
    **dict.fromkeys(
        ("gitsource", "gitsources", "gks", "gitsource.gitkruise.io", "gitsources.gitkruise.io"),
        "GitSource",
    ),
}


@click.command(cls=ExitCodesCommand, exits=(5,))
@object_argument("unit", metavar="unit/NAME")
@namespace_option
@click.option("--reason", default="", metavar="TEXT", help="Reason, shown wherever the unit is.")
@click.option("--until", default="", metavar="TIME|DURATION",
              help="Resume automatically at this time (RFC 3339), or after 2h, 30m.")  # fmt: skip
@output_option
@cluster_options
@click.pass_context
def suspend(ctx: click.Context, /, unit: str, cluster: ClusterChoice, **flags: Any) -> None:
    """Suspend a Unit of the cluster: gitkruise leaves its objects as they are.

    \b
    Examples:
      gitkruise suspend unit/web -n shop --reason "incident 4711"
      gitkruise suspend unit/web -n shop --until 2h
      gitkruise suspend unit/web -n shop --until 2026-11-21T20:00:00Z

    Until it is resumed, gitkruise applies no commit of the unit, prunes nothing, corrects no drift
    and continues no promotion. Objects stay, rollouts in the cluster continue, and drift is
    reported. The command sets spec.suspend of the Unit; commits do not change.
    """
    _target(unit, "", "suspend", "Unit")
    ctx.exit(asyncio.run(_suspend(unit, cluster, flags)))


@click.command(
    cls=ExitCodesCommand,
    exits=(1, 5, 6),
    says="suspended or being deleted; or not ready after the round, other than waiting",
)
@object_argument(metavar="unit/NAME|gitsource/NAME")
@namespace_option
@timeout_option()
@output_option
@cluster_options
@click.pass_context
def reconcile(
    ctx: click.Context, /, object_name: str, cluster: ClusterChoice, **flags: Any
) -> None:
    """Reconcile a Unit or GitSource of the cluster now, and wait until that has ended.

    \b
    Examples:
      gitkruise reconcile unit/web -n shop
      gitkruise reconcile gitsource/fleet -n shop --timeout 30s -o json

    The controller polls the source, then runs a round of the unit: it takes a new commit, applies,
    prunes and corrects drift. A rollout that the round starts is not awaited: see gitkruise wait.
    """
    _target(object_name, "", "reconcile", "Unit", "GitSource")
    ctx.exit(asyncio.run(_reconcile(object_name, cluster, flags)))


def is_unit(text: str) -> bool:
    """Return whether `type/name` names a Unit."""
    return bool(named_unit(text))


def resume_unit(text: str, choice: ClusterChoice, namespace: str, output: str) -> int:
    """Resume a Unit of the cluster; return the exit code."""
    return asyncio.run(_resume(text, choice, namespace, output))


def _target(text: str, namespace: str, verb: str, *kinds: str) -> Target:
    """Parse `type/name`. Raises UsageProblem GK7014."""
    from gitkruise.gitops.resources.user_requests import Target  # noqa: PLC0415  imports the model

    word, _, name = text.partition("/")
    kind = _KINDS.get(word.lower(), "")
    if kind in kinds and name and "/" not in name:
        return Target(kind, namespace, name)
    forms = " or ".join(f"{kind.lower()}/NAME" for kind in kinds)
    notes = [("next", f"gitkruise {verb} {forms}, with -n for its namespace")]
    if verb == "suspend":
        notes.append(("or", "to stop a rollout instead: gitkruise pause TYPE/NAME"))
    raise UsageProblem(Finding(code="GK7014", message=f'"{text}": not {forms}', notes=tuple(notes)))


# Suspending -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """An object of a cluster, as it was read, and how command lines name it."""

    chosen: ChosenCluster
    target: Target
    obj: Obj
    choice: ClusterChoice

    @property
    def name(self) -> str:
        return f"{self.target.kind.lower()}/{self.target.name} -n {self.target.namespace}"

    def say(self, lines: Iterable[str]) -> None:
        """Print lines, with the cluster's flags in the commands that they recommend."""
        style = Style.of(read_environment())
        for line in lines_carrying(lines, self.choice.flags):
            command = line.startswith("next")  # to be copied: one line
            say(line if command else wrapped(line, style.width, indent=2), style)


@asynccontextmanager
async def _named(
    text: str, choice: ClusterChoice, namespace: str, verb: str
) -> AsyncIterator[_Named]:
    """Read the object. Raises ClusterFailed GK4010 and UsageProblem GK7063 without one."""
    from gitkruise.gitops.resources.user_requests import read  # noqa: PLC0415  imports the model

    async with connected(choice, read_environment()) as chosen:
        target = _target(text, namespace or chosen.namespace, verb, *_KINDS.values())
        try:
            obj = await read(chosen.transport, target)
        except NotFound:
            raise _missing(target, verb) from None
        yield _Named(chosen=chosen, target=target, obj=obj, choice=choice)


async def _suspend(text: str, choice: ClusterChoice, flags: dict[str, Any]) -> int:
    from gitkruise.gitops.inspect.doctor_cluster import who_am_i  # noqa: PLC0415
    from gitkruise.gitops.resources import user_requests  # noqa: PLC0415  imports the model
    from gitkruise.model.gitops.config import Suspend  # noqa: PLC0415

    async with _named(text, choice, flags["namespace"], "suspend") as named:
        chosen, now = named.chosen, named.chosen.clock.now()
        before = user_requests.suspension_of(named.obj, now)
        until = _until(flags["until"], now)
        if before is not None and not (flags["reason"] or until):
            _answer(named, flags["output"], before, changed=False)
            return 0
        await _refuse_futile(named, now, "true")
        # The API server knows who asks; the name of the local user is only what is left without.
        by = await who_am_i(chosen.transport) or getpass.getuser()
        kept = before or Suspend()
        asked = Suspend(by=by, reason=flags["reason"] or kept.reason, until=until or kept.until)
        await user_requests.suspend(chosen.transport, named.target, asked)
        _answer(named, flags["output"], asked, changed=True)
    return 0


async def _resume(text: str, choice: ClusterChoice, namespace: str, output: str) -> int:
    from gitkruise.gitops.resources import user_requests  # noqa: PLC0415  imports the model

    async with _named(text, choice, namespace, "resume") as named:
        now = named.chosen.clock.now()
        before = user_requests.suspension_of(named.obj, now)
        if before is not None:
            await _refuse_futile(named, now, "false")
            await user_requests.resume(named.chosen.transport, named.target)
        _answer(named, output, None, changed=before is not None)
    return 0


def _until(text: str, now: datetime) -> str:
    """Return --until as a time. Raises UsageProblem GK7064."""
    from gitkruise.wire.primitives.times import (  # noqa: PLC0415
        format_time,
        parse_duration,
        parse_time,
    )

    if not text:
        return ""
    try:
        end = now + parse_duration(text) if text[-1].isalpha() and text[-1] != "Z" else None
        end = end or parse_time(text)
        why = "is in the past"
    except (ValueError, OverflowError) as error:
        zoneless = str(error).startswith("no time zone")
        end, why = None, "has no time zone" if zoneless else "is neither a time nor a duration"
    if end is None or end <= now:
        tomorrow = format_time(now + timedelta(days=1))
        notes = (
            ("unchanged", "nothing was written"),
            ("next", f"write {tomorrow[:11]}08:00:00Z, 2h or 30m"),
        )
        message = f"--until {text} {why}"
        raise UsageProblem(Finding(code="GK7064", message=message, notes=notes))
    return format_time(end)


async def _refuse_futile(named: _Named, now: datetime, value: str) -> None:
    """Raise UsageProblem if spec.suspend has no effect (GK7063), or if git sets it back (GK7065).

    Warn where that depends on something else.
    """
    from gitkruise.gitops.resources.user_requests import ready_of, undoing  # noqa: PLC0415

    if ready_of(named.obj).get("message", "").startswith("GK7008"):
        message = (
            f"unit {named.target.id} is also declared in the controller's configuration file, "
            "which takes precedence over the object"
        )
        notes = (
            ("unchanged", "nothing was written"),
            ("next", f"set spec.suspend: {value} in that file, restart gitkruise run"),
        )
        raise UsageProblem(Finding(code="GK7063", message=message, notes=notes))
    found = await undoing(named.chosen.transport, named.obj, now, resumed=value == "false")
    if found is None:
        return
    where = found.path or "its manifest"
    if found.when:
        say_on_stderr(f"warning: {found.by} sets spec.suspend back {found.when}")
        say_on_stderr(
            f"   = to keep the change: set spec.suspend: {value} in {where}, commit and push"
        )
        return
    message = f"{found.by} applies spec.suspend from {where}; its next round would set it back"
    raise UsageProblem(
        Finding(
            code="GK7065",
            message=message,
            notes=(
                ("unchanged", f"{named.name}: nothing was written"),
                ("next", f"set spec.suspend: {value} there, commit and push"),
                ("or", "take the field out of git; then this command can set it"),
            ),
        )
    )


def _missing(target: Target, verb: str) -> DiagnosticError:
    """Return the error for an object that the cluster does not have."""
    edits = {
        "suspend": f"set spec.suspend: true on Unit {target.name} there, restart gitkruise run",
        "resume": f"remove spec.suspend from Unit {target.name} there, restart gitkruise run",
        "reconcile": "gitkruise sync",
    }
    kind, edit = target.kind.lower(), edits[verb]
    if _declared(target):
        where = f"declared in {CONFIG_FILE}: it is not an object of the cluster"
        message = f"{kind} {target.id} is {where}"
        notes = (("unchanged", "nothing was written"), ("next", edit))
        return UsageProblem(Finding(code="GK7063", message=message, notes=notes))
    notes = (
        ("next", f"kubectl get {kind}s -A lists those of all namespaces"),
        ("or", f"if a configuration file declares it: {edit}"),
    )
    message = f'{kind} "{target.name}" not found in namespace {target.namespace}'
    return ClusterFailed(Finding(code="GK4010", message=message, notes=notes))


def _declared(target: Target) -> bool:
    """Return whether the configuration file that the command finds declares the object."""
    from gitkruise.gitops.config.loader import load_config  # noqa: PLC0415  imports jsonschema

    file = config_at_hand()
    if not file.exists():
        return False
    try:
        config = load_config(file)
    except UsageProblem:
        return False  # a broken file is not what this command was asked about
    return target.id in (config.units if target.kind == "Unit" else config.sources)


def _answer(named: _Named, output: str, now: Suspend | None, *, changed: bool) -> None:
    """Print the state of a Unit, suspended (`now`) or not, and what follows from it."""
    if output == "json":
        about = {name: getattr(now, name) for name in ("by", "reason", "until")} if now else {}
        document = {
            "apiVersion": API_VERSION,
            "kind": "SuspendResult",
            "unit": named.target.id,
            "suspended": now is not None,
            "changed": changed,
            **{name: text for name, text in about.items() if text},
        }
        say_json(document, Style.of(read_environment()))
    else:
        named.say(_lines(named, now, changed=changed))


def _lines(named: _Named, now: Suspend | None, *, changed: bool) -> Iterator[str]:
    from gitkruise.gitops.config.dependencies import details_of  # noqa: PLC0415
    from gitkruise.wire.primitives.paths import get  # noqa: PLC0415

    details = details_of(now) if now is not None else ""
    if not changed:
        state = "is suspended already" if now is not None else "is not suspended"
        yield f"{named.name} {state}{details}: nothing to do"
    elif now is not None:
        count = get(named.obj, "status", "inventory", "count", default=0)
        objects = f"{count} objects" if count > 1 else "1 object" if count else "objects"
        yield f"suspended  {named.name}{details}"
        yield "stops      applying commits, pruning, correcting drift, promotions"
        yield f"stays      its {objects}; rollouts in the cluster continue, drift is reported"
        yield f"next       gitkruise resume {named.name}"
    else:
        yield f"resumed    {named.name}"
        yield "allows     applying commits, pruning, correcting drift, promotions"
        yield f"next       gitkruise reconcile {named.name} runs a round, and waits for it"


# Reconciling ------------------------------------------------------------------------------------


async def _reconcile(text: str, choice: ClusterChoice, flags: dict[str, Any]) -> int:
    from gitkruise.gitops.resources import user_requests  # noqa: PLC0415  imports the model
    from gitkruise.wire.primitives.times import parse_duration  # noqa: PLC0415

    async with _named(text, choice, flags["namespace"], "reconcile") as named:
        transport, clock, obj = named.chosen.transport, named.chosen.clock, named.obj
        value = ""
        if not user_requests.unanswered(obj, clock.now()):
            value = await user_requests.request_round(transport, named.target, clock.now())
            limit = (flags["timeout"], parse_duration(flags["timeout"]).total_seconds())
            obj = await user_requests.follow_round(transport, clock, named.target, value, limit)
        found = _result(named.target, obj, confirmed=user_requests.confirmed(obj, value))
        if flags["output"] == "json":
            say_json(found, Style.of(read_environment()))
        elif not found["confirmed"]:
            named.say(_unanswered(named, obj))
        else:
            named.say([_result_line(named, found)])
    return 0 if found["confirmed"] and not _failed(found) else 1


def _result(target: Target, obj: Obj, *, confirmed: bool) -> dict[str, Any]:
    from gitkruise.gitops.resources.user_requests import ready_of  # noqa: PLC0415

    status, ready = obj.get("status") or {}, ready_of(obj)
    return {
        "apiVersion": API_VERSION,
        "kind": "ReconcileResult",
        target.kind.lower(): target.id,
        "confirmed": confirmed,
        "ready": ready.get("status", "Unknown"),
        "reason": ready.get("reason", ""),
        "state": status.get("phase", ""),
        "revision": status.get("revision") or status.get("lastAttemptedRevision") or "",
        "applied": status.get("lastAppliedRevision", ""),
        "message": ready.get("message", ""),
    }


def _failed(found: Mapping[str, Any]) -> bool:
    """Return whether the object is not well; one that waits for something is."""
    from gitkruise.model.gitops.unit_state import CHOSEN  # noqa: PLC0415  imports the model

    return found["ready"] == "False" and found["reason"] not in CHOSEN


def _result_line(named: _Named, found: Mapping[str, Any]) -> str:
    """Return `Done  unit/web -n shop  4f2c9e1  3/3 updated`; of a source Ready or Failed."""
    from gitkruise.model.gitops.unit_state import State  # noqa: PLC0415  imports the model

    style = Style.of(read_environment())
    commit = found["revision"].rpartition(":")[2][:7]
    failed = _failed(found)
    plain = (
        f"{style.glyph(State.STUCK if failed else State.DONE)} {'Failed' if failed else 'Ready'}"
    )
    state = style.state(State(found["state"])) if found["state"] else plain
    return "  ".join(filter(None, [state, named.name, commit, found["message"]]))


def _unanswered(named: _Named, obj: Obj) -> Iterator[str]:
    """Yield why no round runs for an object."""
    from gitkruise.gitops.config.dependencies import details_of  # noqa: PLC0415
    from gitkruise.gitops.resources.user_requests import suspension_of, unanswered  # noqa: PLC0415

    now = named.chosen.clock.now()
    asked = suspension_of(obj, now)
    details = details_of(asked) if asked is not None else ""
    yield f"{named.name} is {unanswered(obj, now)}{details}: it is not reconciled"
    if asked is not None:
        yield f"next       gitkruise resume {named.name}"

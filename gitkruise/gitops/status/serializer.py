"""Serializer: a unit's record as the files and the commit message of the status branch.

Files are sorted and stable, without anything that changes without news: the diff is what happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import yaml

from gitkruise.errors import Finding
from gitkruise.git.parsing.yaml_scalars import needs_quotes
from gitkruise.gitops.status.codecs import (
    BASE,
    CHART,
    COMMIT,
    DRIFT,
    INTERVENTION,
    PROMOTION,
    cut,
    lean,
    object_id,
    step_obj,
)
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import (
    Intervention,
    PodRecord,
    Removal,
    Rollout,
    RolloutStep,
    UnitRecord,
)
from gitkruise.model.gitops.unit_state import SETTLED, State
from gitkruise.printable import many, row, visible, visible_lines
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.times import format_duration, format_time

Detail = Literal["unit", "workload", "pods"]
_WIDTH: Final = 1 << 20  # a value is never folded
SKIP_CI: Final = "[skip ci]"
README: Final = """\
# Outcome of what git asked for

Written by gitkruise, one commit for every piece of news; do not edit by hand.

- `index.tsv`: one line a unit
- `units/NAMESPACE/NAME/status.yaml`: state, commits, problems of a unit
- `units/NAMESPACE/NAME/objects.tsv`: every object with its state
- `units/NAMESPACE/NAME/rollouts/KIND.NAME.yaml`: revisions, pods and steps of a rollout;
  those of one kind and name are in folders `NAMESPACE/GROUP`
- `units/NAMESPACE/NAME/drift.yaml`: only while something differs from git
- `units/NAMESPACE/NAME/interventions.yaml`: corrected drift, takeovers, deletions

`git log` on this branch reads like a diary; trailers name the source commit of each entry.
"""
INDEX: Final = "index.tsv"
UNITS: Final = "units"  # the folder with one folder a unit
_INDEX_HEAD: Final = ("unit", "state", "applied", "causal", "updated", "total", "since")


def record_files(record: UnitRecord, detail: Detail = "workload") -> dict[str, bytes]:
    """Return the files of one unit by path: with its rollouts, with pods, or without."""
    root = f"{UNITS}/{record.unit}"
    files = {
        f"{root}/status.yaml": _yaml(_status(record)),
        f"{root}/objects.tsv": _objects(record),
    }
    steps = dict(record.steps)
    rollouts = record.rollouts if detail != "unit" else ()
    namesakes = Counter(rollout_file(rollout.key) for rollout in rollouts)
    for rollout in rollouts:
        key, name = rollout.key, rollout_file(rollout.key)
        folder = f"{key.namespace}/{key.group}/" if namesakes[name] > 1 else ""
        pods = rollout.pods if detail == "pods" else ()
        rows = _rollout(rollout, steps.get(key, ()), pods)
        files[f"{root}/rollouts/{folder}{name}"] = _yaml(rows)
    if record.drift:
        drift = [{"object": str(d.key), **DRIFT.obj(d)} for d in record.drift]
        files[f"{root}/drift.yaml"] = _yaml({"drift": drift})
    if record.interventions:
        interventions = list(map(INTERVENTION.obj, record.interventions))
        files[f"{root}/interventions.yaml"] = _yaml({"interventions": interventions})
    return files


def rollout_file(key: ObjectKey) -> str:
    """Return the name of the file of a rollout, which namesakes have in folders of their own."""
    return f"{key.kind}.{key.name}.yaml"


def intervention_lines(interventions: Iterable[Intervention]) -> str:
    """Return a line for each intervention, for the message of a commit."""
    return "\n".join(visible(_intervention_line(one)) for one in interventions)


def _intervention_line(one: Intervention) -> str:
    return f"{one.reason} {one.key}: {cut(one.text)}"


def files_by_unit(paths: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the files by unit: `units/NAMESPACE/NAME/…` by `NAMESPACE/NAME`."""
    found: dict[str, set[str]] = {}
    for path in paths:
        parts = path.split("/")
        if len(parts) > 3 and parts[0] == UNITS:
            found.setdefault(f"{parts[1]}/{parts[2]}", set()).add(path)
    return {unit: frozenset(mine) for unit, mine in found.items()}


def shared_files(records: Sequence[UnitRecord], index: bytes | None = None) -> dict[str, bytes]:
    """Return README.md and index.tsv over all units of the branch.

    Lines of `index`, the current file, stay for units that are not among `records`.
    """
    rows = {
        line.partition("\t")[0]: line
        for line in (index or b"").decode("utf-8", "replace").splitlines()[1:]
    }
    rows |= {visible(record.unit): row(_cells(record)) for record in records}
    lines = [row(_INDEX_HEAD), *(rows[unit] for unit in sorted(rows))]
    return {"README.md": README.encode(), INDEX: ("\n".join(lines) + "\n").encode()}


def without_unit(index: bytes | None, unit: str) -> bytes:
    """Return the index without the line of one unit."""
    lines = (index or b"").splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(f"{unit}\t".encode()))


def _cells(r: UnitRecord) -> tuple[str, ...]:
    return (
        r.unit,
        r.state,
        _short(r.applied),
        _short(r.causal),
        str(r.updated),
        str(r.total),
        format_time(r.since),
    )


def commit_subject(records: Sequence[UnitRecord], *, unmoved: bool = False) -> str:
    """Return `shop/web: held 12/40 at 4f2c1ab`, for the first unit; or, if it is `unmoved` by all
    but its interventions, `shop/web: DriftCorrected ConfigMap shop/settings`."""
    first = records[0]
    news = _intervention_news(first.interventions) if unmoved else summary_of(first)
    return _subject(records, news)


def removal_subject(records: Sequence[UnitRecord], why: str) -> str:
    """Return `shop/web: removed, 4 objects deleted`, for the first unit that ended."""
    return _subject(records, f"removed, {why}")


def _subject(records: Sequence[UnitRecord], news: str) -> str:
    more = f" (+{many(len(records) - 1, 'unit')})" if len(records) > 1 else ""
    return visible(f"{records[0].unit}: {news}{more} {SKIP_CI}")


def _intervention_news(interventions: Sequence[Intervention]) -> str:
    more = f" (+{many(len(interventions) - 1, 'object')})" if len(interventions) > 1 else ""
    return f"{interventions[-1].reason} {interventions[-1].key}{more}"


def summary_of(record: UnitRecord) -> str:
    """Return state, counts and commit of a unit in a few words."""
    counts = f" {record.updated}/{record.total}" if record.rollouts and record.counted else ""
    at = f" at {record.about.short}" if record.about else ""
    return f"{record.state.lower()}{counts}{at}"


def commit_body(records: Sequence[UnitRecord]) -> str:
    """Return one line for each finding, chart, base, rollout, intervention and overtaken commit."""
    lines = []
    for record in records:
        lines += [f"{f.code}: {cut(f.message)}" for f in record.findings[:3]]
        lines += [f"{record.chart} of {record.chart.repository}"] if record.chart else []
        lines += map(str, record.bases)
        lines += [
            f"{r.key.kind} {r.key.name}: {r.state.lower()}, {cut(r.message)}"
            for r in record.rollouts
            if r.state is not State.DONE
        ]
        lines += [_intervention_line(one) for one in record.interventions]
        lines += [f"{commit.short} was overtaken by {by[:7]}" for commit, by in record.superseded]
    return "\n".join(map(visible, lines))


def commit_trailers(records: Sequence[UnitRecord]) -> list[tuple[str, str]]:
    """Return the machine-readable trailers: unit, source commit, state."""
    out = [("Gitkruise-Cluster", records[0].cluster)]
    for record in records:
        out.append(("Gitkruise-Unit", record.unit))
        if record.attempted:
            out.append(("Gitkruise-Source", record.attempted.id))
        if record.causal:
            out.append(("Gitkruise-Causal", record.causal.id))
        out.append(("Gitkruise-Phase", str(record.state)))
        out += [("Gitkruise-Superseded", commit.id) for commit, _ in record.superseded]
    return [(name, visible(value)) for name, value in out]


def note_text(record: UnitRecord, version: str) -> dict[str, Any]:
    """Return one unit's entry in the note on its causal commit."""
    done = record.state in SETTLED
    return lean(
        {
            "phase": str(record.state),
            "message": cut(record.message),
            "at": format_time(record.since) if done else "",
            "pods": {"updated": record.updated, "total": record.total} if record.rollouts else None,
            "by": f"gitkruise/{version}",
        }
    )


def _status(record: UnitRecord) -> dict[str, Any]:
    return lean(
        {
            "unit": record.unit,
            "cluster": record.cluster,
            "source": record.source,
            "path": record.path,
            "state": str(record.state),
            "message": cut(record.message),
            "since": format_time(record.since),
            "waits": cut(record.waits),
            "attempted": COMMIT.obj(record.attempted) if record.attempted else None,
            "applied": COMMIT.obj(record.applied) if record.applied else None,
            "sent": COMMIT.obj(record.sent) if record.sent else None,
            "causal": COMMIT.obj(record.causal) if record.causal else None,
            "chart": CHART.obj(record.chart) if record.chart else None,
            "bases": list(map(BASE.obj, record.bases)),
            "findings": [_finding(f) for f in record.findings],
            "removal": _removal(record.removal) if record.removal else None,
            "promotion": PROMOTION.obj(record.promotion) if record.promotion else None,
        }
    )


def _removal(removal: Removal) -> dict[str, Any]:
    return {
        "policy": removal.policy,
        "propagation": removal.propagation,
        "timeout": format_duration(removal.timeout),
        "limit": removal.limit,
        **({"account": removal.account} if removal.account else {}),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return lean(
        {
            "code": finding.code,
            "severity": str(finding.severity),
            "message": cut(finding.message),
            "places": [str(p) for p in finding.places],
            "notes": {label: cut(text) for label, text in finding.notes},
        }
    )


def _objects(record: UnitRecord) -> bytes:
    rows = ["object\tstate\tcommit\tdigest\tmessage"]
    rows += [
        row((object_id(o.key), o.state, o.commit[:7] or "-", o.digest or "-", _line(o.message)))
        for o in sorted(record.objects, key=lambda o: o.key)
    ]
    return ("\n".join(line.rstrip("\t") for line in rows) + "\n").encode()


def _rollout(
    rollout: Rollout, steps: Sequence[RolloutStep], pods: Sequence[PodRecord]
) -> dict[str, Any]:
    return lean(
        {
            "object": object_id(rollout.key),
            "state": str(rollout.state),
            "message": cut(rollout.message),
            "engine": rollout.engine,
            "desired": {
                "replicas": rollout.replicas,
                "partition": rollout.partition,
                **({"canary": rollout.canary} if rollout.canary else {}),
                "asked": rollout.asked,
            },
            "revisions": [
                lean(
                    {
                        "hash": r.hash,
                        "role": r.role,
                        "commit": r.commit[:7],
                        "pods": r.pods,
                        "available": r.available,
                        "images": dict(r.images),
                    }
                )
                for r in rollout.revisions
                if r.pods or r.role == "update"
            ],
            "failing": [{"pod": pod, "why": cut(why)} for pod, why in rollout.failing[:5]],
            "pods": [
                {"name": pod.name, "revision": pod.revision, "state": pod.state} for pod in pods
            ],
            "steps": list(map(step_obj, steps)),
        }
    )


def _short(commit: GitCommit | None) -> str:
    return commit.short if commit else "-"


def _line(text: str) -> str:
    return " ".join(cut(text).split())


class _Plain(yaml.SafeDumper):
    """Writes every printable character as it is."""


class _Fast(yaml.CSafeDumper):
    """The same text ten times as fast, except for characters that libyaml writes as escapes."""


def _one_line(dumper: yaml.SafeDumper | yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    """Represent text so that it is read as this text: line ends and controls as one quoted line of
    escapes."""
    style = '"' if visible(text) != text else "'" if needs_quotes(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


for _dumper in (_Plain, _Fast):
    _dumper.add_representer(str, _one_line)


def _yaml(value: Mapping[str, Any]) -> bytes:
    text = _dumped(value, _Fast)
    text = _dumped(value, _Plain) if "\\" in text else text
    return (text if visible_lines(text) == text else _dumped(value, _Plain, plain=False)).encode()


def _dumped(value: Mapping[str, Any], dumper: type[_Plain | _Fast], *, plain: bool = True) -> str:
    """Return YAML; unless `plain`, every character outside ASCII is written as an escape."""
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=plain, width=_WIDTH)
    return text

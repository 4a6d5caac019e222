"""The laws: each statement of gitkruise at rest is compared with what the observer derives.

Imports nothing of gitkruise. Every function returns the lies that it found, as sentences.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from tests.observer.truth import (
    ROLLED_OUT,
    Named,
    Obj,
    Seen,
    rollout_state,
    runs,
    same,
    short,
    unit_state,
)

Say = Callable[..., tuple[int, str, str]]
Wanted = Mapping[Named, Obj] | None


_ROLLOUTS = {"Done", "Held", "Paused", "Rolling"}  # what gives way to the news that a commit waits


class Expected:
    """Facts about a unit at rest: newest commit, what it wants, and what is to be live."""

    def __init__(
        self, name: str, newest: Wanted, good: Mapping[Named, Obj], seen: Seen,
        withheld: frozenset[Named], *, waits: bool = False,
    ) -> None:  # fmt: skip
        """`withheld` are objects that `newest` claims and another unit has not handed over.

        `waits`: none of `newest` is sent before somebody agrees or a time comes.
        """
        self.name, self.newest, self.good, self.seen = name, newest, good, seen
        self.withheld, self.waits = withheld, waits
        self.own = {n: obj for n, obj in good.items() if n not in withheld}
        state = unit_state(self.own if newest is not None else None, seen)
        state = "Stuck" if withheld and state != "Rejected" else state
        self.state = "Waiting" if waits and state in _ROLLOUTS else state

    def rollouts(self) -> Iterator[tuple[str, str, Obj]]:
        """Yield (name, state, live object) of the live workloads."""
        for name in self.own:
            if name.kind in ROLLED_OUT:
                live = self.seen.objects[name]
                yield name.name, rollout_state(live, self.seen.of[name.name]), live


def live_lies(units: Mapping[str, Expected], seen: Seen, spared: frozenset[Named]) -> Iterator[str]:
    """What is live is what the newest good commit of each unit wants, and nothing else.

    `spared` stay although no unit wants them.
    """
    everything: dict[Named, str] = {}
    for unit in units.values():
        for name, obj in unit.own.items():
            everything[name] = unit.name
            live = seen.objects.get(name)
            if live is None:
                yield f"{name} of {unit.name} is not there"
            elif not same(obj, live):
                yield f"{name} of {unit.name} is not as git asks"
            elif seen.owner(name) != unit.name:
                yield f"{name} belongs to {seen.owner(name)}, not to {unit.name}"
    for name in seen.objects.keys() - everything.keys() - spared:
        # A unit deletes when all that it applied is ready, and when every unit could read the
        # commit: the object may have moved to another.
        owner = units[seen.owner(name)]
        undecided = any(unit.state == "Rejected" or unit.waits for unit in units.values())
        if owner.state != "Stuck" and not undecided:
            yield f"{name} is still there, and no unit wants it"


def record_lies(units: Mapping[str, Expected], files: Mapping[str, str]) -> Iterator[str]:
    """The files of the status branch."""
    index = {
        row["unit"]: row for row in csv.DictReader(files["index.tsv"].splitlines(), delimiter="\t")
    }
    for unit in units.values():
        folder = f"units/{unit.name}"
        status = yaml.load(files[f"{folder}/status.yaml"], yaml.CSafeLoader)
        if status["state"] != unit.state:
            stated = f"{status['state']} ({status['message']})"
            yield f"record: {unit.name} is {stated}, not {unit.state}"
        if bool(status.get("waits")) != unit.waits:
            yield f"record: {unit.name} waits for {status.get('waits')!r}: {unit.waits}"
        if index[unit.name]["state"] != unit.state:
            yield f"index: {unit.name} is {index[unit.name]['state']}, not {unit.state}"
        rows = csv.DictReader(files[f"{folder}/objects.tsv"].splitlines(), delimiter="\t")
        listed = {_listed(row["object"]) for row in rows}
        if listed - unit.withheld != set(unit.own):  # withheld ones may be listed, as Stuck
            yield f"objects.tsv of {unit.name}: {sorted(listed)}, not {sorted(unit.own)}"
        yield from _recorded_rollouts(unit, files)


def _recorded_rollouts(unit: Expected, files: Mapping[str, str]) -> Iterator[str]:
    for name, state, live in unit.rollouts():
        rollout = files[f"units/{unit.name}/rollouts/{live['kind']}.{name}.yaml"]
        text = yaml.load(rollout, yaml.CSafeLoader)
        if text["state"] != state:
            yield f"record: {name} is {text['state']}, not {state}"
        if text["desired"]["replicas"] != live["spec"]["replicas"]:
            yield f"record: {name} has {text['desired']['replicas']} replicas"
        by_image: Counter[str] = Counter()
        for revision in text["revisions"]:
            for image in revision.get("images", {}).values():
                by_image[image] += revision["pods"]
        images: Counter[str] = Counter()
        for one, count in unit.seen.of[name].images.items():
            images[one.partition(" ")[0]] += count
        if +by_image != images:
            yield f"record: pods of {name} by image: {by_image}, {unit.seen.of[name].images}"


def _listed(text: str) -> Named:
    _, name, rest = text.split("_", 2)
    return Named(rest.rpartition("_")[2], name)


def _rollout_lies(where: str, rollout: Obj, state: str, live: Obj, seen: Seen) -> Iterator[str]:
    name = live["metadata"]["name"]
    pods = seen.of[name]
    image = runs(live["spec"]["template"]["spec"])
    facts = {
        "state": state,
        "replicas": live["spec"]["replicas"],
        "total": pods.total,
        "ready": pods.ready.total(),
        "updated": pods.images[image],
        "updatedReady": pods.ready[image],
    }
    for fact, value in facts.items():
        if rollout[fact] != value:
            yield f"{where}: {fact} of {name} is {rollout[fact]}, not {value}"


_READY = {"Done": "True", "Held": "True"}  # the others: False


def _written(event: Obj) -> tuple[str, int]:
    """The order of Events, also of those of one second."""
    return str(event["lastTimestamp"]), int(event["metadata"]["resourceVersion"])


def condition_lies(
    units: Mapping[str, Expected], objects: Mapping[str, Obj], events: Sequence[Obj]
) -> Iterator[str]:
    """Conditions of Unit objects, and the newest Event about each."""
    for unit in units.values():
        obj = objects[unit.name]
        status = obj["status"]
        ready = next(c for c in status["conditions"] if c["type"] == "Ready")
        stated = (status["phase"], ready["status"], status["observedGeneration"])
        right = (unit.state, _READY.get(unit.state, "False"), obj["metadata"]["generation"])
        if stated != right:
            yield f"conditions: {unit.name} is {stated} ({ready['message']}), not {right}"
        uid = obj["metadata"]["uid"]
        about = [event for event in events if event["involvedObject"].get("uid") == uid]
        newest = max(about, key=_written, default=None)
        kind = "Normal" if unit.state in _ROLLOUTS else "Warning"
        if newest is None or (newest["type"], newest["reason"]) != (kind, ready["reason"]):
            yield f"Events: the newest of {unit.name} is {newest}, not {kind} {ready['reason']}"


def status_lies(units: Mapping[str, Expected], say: Say) -> Iterator[str]:
    """`status -o json`."""
    code, out, err = say("status", "-o", "json")
    if code != 0:
        yield f"status: exit {code}: {err}"
        return
    document = json.loads(out)
    states = {one["unit"]: one["state"] for one in document["units"]}
    for unit in units.values():
        if any(bool(u["waits"]) != unit.waits for u in document["units"] if u["unit"] == unit.name):
            yield f"status: {unit.name} waits: {not unit.waits}, and should be {unit.waits}"
        if states.get(unit.name) != unit.state:
            yield f"status: {unit.name} is {states.get(unit.name)}, not {unit.state}"
        for name, state, live in unit.rollouts():
            found = [i for i in document["items"] if i["object"]["name"] == name]
            if len(found) != 1 or found[0]["unit"] != unit.name:
                yield f"status: {name} appears {len(found)} times, of {[i['unit'] for i in found]}"
            else:
                yield from _rollout_lies("status", found[0]["rollout"], state, live, unit.seen)


def get_lies(units: Mapping[str, Expected], say: Say) -> Iterator[str]:
    """`get rollouts` and `get units`."""
    code, out, err = say("get", "rollouts", "-o", "json")
    if code != 0:
        yield f"get rollouts: exit {code}: {err}"
        return
    rollouts = {one["name"]: one for one in json.loads(out)["items"]}
    listed = json.loads(say("get", "units", "-o", "json")[1])["items"]
    states = {f"{one['namespace']}/{one['name']}": one["state"] for one in listed}
    for unit in units.values():
        if states.get(unit.name) != unit.state:
            yield f"get units: {unit.name} is {states.get(unit.name)}, not {unit.state}"
        for name, state, live in unit.rollouts():
            if name not in rollouts:
                yield f"get rollouts: {name} is not listed"
            else:
                yield from _rollout_lies("get", rollouts[name], state, live, unit.seen)


def why_lies(units: Mapping[str, Expected], say: Say) -> Iterator[str]:
    """`why` of each workload."""
    for unit in units.values():
        for name, state, live in unit.rollouts():
            code, out, err = say("why", f"{short(live)}/{name}", "-o", "json")
            if not out.startswith("{"):
                yield f"why {name}: exit {code}: {err}"
                continue
            document = json.loads(out)
            right = "Waiting" if unit.waits and state in {"Done", "Held"} else state
            if document["state"] != right:
                yield f"why: {name} is {document['state']}, not {right}"
            if document.get("unit") != unit.name:
                yield f"why: {name} belongs to {document.get('unit')}, not to {unit.name}"


def wait_lies(units: Mapping[str, Expected], say: Say) -> Iterator[str]:
    """`wait` ends with the verdict: 0 for Done, Held and Paused, 1 for Stuck and Rejected; it goes
    on (6) while a commit waits."""
    for unit in units.values():
        code, _, err = say("wait", unit.name, "--timeout", "1ms")
        verdicts = {"Done": 0, "Held": 0, "Paused": 0, "Stuck": 1, "Rejected": 1}
        right = 6 if unit.waits else verdicts.get(unit.state, 6)
        if code != right:
            yield f"wait {unit.name}: exit {code} while it is {unit.state}: {err}"


def doctor_lies(units: Mapping[str, Expected], say: Say) -> Iterator[str]:
    """`doctor` exits with 1 exactly when a unit needs somebody."""
    code, out, err = say("doctor", "-o", "json")
    right = int(any(unit.state in {"Stuck", "Rejected"} for unit in units.values()))
    if code != right:
        bad = [one for one in json.loads(out)["items"] if one.get("verdict") != "good"]
        states = [unit.state for unit in units.values()]
        yield f"doctor: exit {code} while units are {states}: {bad} {err}"


def history_lies(units: Mapping[str, Expected], say: Say) -> Iterator[str]:
    """`history`: the newest step of each rollout has the rollout's state; a commit is one step."""
    code, out, err = say("history", "-o", "json")
    if code != 0:
        yield f"history: exit {code}: {err}"
        return
    newest: dict[str, Any] = {}
    commits: Counter[tuple[str, str]] = Counter()
    for step in json.loads(out)["items"]:
        newest.setdefault(step["name"], step)
        commits[step["name"], step["commit"]] += 1
    for (name, commit), times in commits.items():
        if times > 1:
            yield f"history: {name} has {times} steps of {commit[:7]}"
    for unit in units.values():
        for name, state, live in unit.rollouts():
            step = newest.get(name)
            if step is None:
                yield f"history: no step of {name}"
            elif step["replicas"] != live["spec"]["replicas"]:
                yield f"history: {name} has {step['replicas']} replicas"
            elif step["state"] != state:
                yield f"history: {name} is {step['state']}, not {state}"


def text_lies(units: Mapping[str, Expected], say: Say) -> Iterator[str]:
    """The tables that a person reads: `get units`, `get rollouts` and `status`."""
    _, out, _ = say("get", "units")
    listed = {f"{row['NAMESPACE']}/{row['NAME']}": row["STATE"] for row in _table(out)}
    _, out, _ = say("get", "rollouts")
    rolled = {row["NAME"]: row for row in _table(out)}
    _, out, _ = say("status")
    shown = {row["OBJECT"]: row for row in _table(out)}
    for unit in units.values():
        if listed.get(unit.name) != unit.state:
            yield f"get units, in text: {unit.name} is {listed.get(unit.name)}, not {unit.state}"
        named = [line for line in out.splitlines() if f"  unit {unit.name} " in line]
        if not named and (unit.newest is None or unit.withheld or unit.waits):
            yield f"status, in text: {unit.name} is {unit.state}, and not named: {out}"
        if any(f"{unit.state}  unit" not in line for line in named):
            yield f"status, in text: {unit.name} is {unit.state}, not {named}"
        for name, state, live in unit.rollouts():
            image = runs(live["spec"]["template"]["spec"])
            pods, replicas = unit.seen.of[name], live["spec"]["replicas"]
            right = (state, f"{pods.images[image]}/{replicas}", f"{pods.ready.total()}/{replicas}")
            for where, row in (
                ("get rollouts", rolled.get(name) or rolled.get(f"{short(live)}/{name}")),
                ("status", shown.get(f"{short(live)}/{name}")),
            ):
                stated = row and (row["STATE"], row["NEW"], row["READY"])
                if stated != right:
                    yield f"{where}, in text: {name} is {stated}, not {right}"


def _table(text: str) -> Iterator[dict[str, str]]:
    """Yield the rows of the one table of a text, by its header; states without their mark."""
    lines = iter(text.splitlines())
    header = next((line for line in lines if line.startswith("NAMESPACE ")), "")
    starts = [(m.start(), m[0]) for m in re.finditer(r"\S+", header)]
    ends = [start for start, _ in starts[1:]] + [None]
    for line in lines:
        if not line.strip():
            return
        cells = (line[start:end].strip() for (start, _), end in zip(starts, ends, strict=True))
        row = dict(zip((name for _, name in starts), cells, strict=True))
        yield {**row, "STATE": row["STATE"].partition("] ")[2].partition(" ")[0]}


OUTLETS: Mapping[str, Callable[[Mapping[str, Expected], Say], Iterator[str]]] = {
    "status": status_lies,
    "get": get_lies,
    "why": why_lies,
    "wait": wait_lies,
    "doctor": doctor_lies,
    "history": history_lies,
}

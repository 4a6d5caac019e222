"""The observer: it reads git and the cluster's API, and derives by itself what is so.

It imports nothing of gitkruise and nothing of its tests. Units are folders of a repository; the
manifests that histories write are workloads and ConfigMaps, so few rules are needed here.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

Obj = Mapping[str, Any]
Read = Callable[[str, str], list[Any]]  # (group, kind) -> all objects of the kind
WORKLOADS: Final = (
    ("apps.kruise.io", "CloneSet"),
    ("apps.kruise.io", "StatefulSet"),
    ("apps", "StatefulSet"),
    ("apps", "Deployment"),
)
ROLLED_OUT: Final = frozenset(kind for _, kind in WORKLOADS)
CONFIG_MAP: Final = ("", "ConfigMap")
_ADVANCED: Final = ("apps.kruise.io/v1beta1", "statefulset")
_SPACE: Final = "shop"  # the one namespace that there is
REPLICASET: Final = ("apps", "ReplicaSet")
OWNER: Final = "gitkruise.io/unit-ref"  # annotation: the unit that an object belongs to
FORBIDDEN: Final = "forbidden-"  # names that the cluster refuses for a while begin so
_FIRST: Final = {"x": "1"}
_PULLS: Final = {"ErrImagePull", "ImagePullBackOff"}
_WORST: Final = ("Rejected", "Stuck", "Rolling", "Paused", "Held", "Done")


class Named(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Git:
    """A repository, read by one lasting git: a program for each look took most of its time."""

    def __init__(self, folder: Path) -> None:
        words = ["git", "-C", str(folder), "cat-file", "--batch"]
        self._program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._files: dict[str, Mapping[str, bytes]] = {}
        self.forbids = True  # the cluster refuses names that are FORBIDDEN

    def close(self) -> None:
        self._program.communicate()

    def commit(self, ref: str) -> str:
        """Return the commit that a ref names now."""
        return self._read(ref, "commit")[0]

    def parent(self, ref: str) -> str:
        """Return the first parent of the commit that a ref names, "" for a first commit."""
        head = self._read(ref, "commit")[1].partition(b"\n\n")[0].decode()
        found = (line.partition(" ") for line in head.splitlines())
        return next((value for key, _, value in found if key == "parent"), "")

    def files(self, commit: str) -> Mapping[str, bytes]:
        """Return all files of a commit."""
        if commit not in self._files:
            self._files[commit] = dict(self._below(f"{commit}^{{tree}}", ""))
        return self._files[commit]

    def wanted(self, commit: str, folder: str) -> dict[Named, Obj] | None:
        """Return the objects a commit wants in a unit; None when the API would refuse them."""
        files = self.files(commit)
        found = wanted(content for name, content in files.items() if name.startswith(f"{folder}/"))
        refused = self.forbids and any(name.name.startswith(FORBIDDEN) for name in found or ())
        return None if refused else found

    def _below(self, tree: str, folder: str) -> Iterator[tuple[str, bytes]]:
        data = self._read(tree, "tree")[1]
        while data:
            head, _, data = data.partition(b"\0")
            mode, _, name = head.partition(b" ")
            id_, data = data[:20].hex(), data[20:]
            path = folder + name.decode()
            if mode == b"40000":
                yield from self._below(id_, f"{path}/")
            else:
                yield path, self._read(id_, "blob")[1]

    def _read(self, name: str, kind: str) -> tuple[str, bytes]:
        """Return the id and the bytes of an object."""
        asked, answer = self._program.stdin, self._program.stdout
        assert asked is not None
        assert answer is not None
        asked.write(f"{name}\n".encode())
        asked.flush()
        id_, found, size = answer.readline().decode().split()
        assert found == kind, f"{name} is a {found}"
        data = answer.read(int(size))
        assert answer.read(1) == b"\n"
        return id_, data


def wanted(contents: Iterable[bytes]) -> dict[Named, Obj] | None:
    """Return the objects of files; None when the API would refuse them."""
    found: dict[Named, Obj] = {}
    for content in contents:
        try:
            documents = [one for one in yaml.load_all(content, yaml.CSafeLoader) if one is not None]
        except yaml.YAMLError:
            return None
        for obj in documents:
            if _refused(obj):
                return None
            found[Named(obj["kind"], obj["metadata"]["name"])] = obj
    return found


def named(contents: Iterable[bytes]) -> frozenset[Named]:
    """Return the objects that whole files name."""
    objects = (obj for content in contents for obj in yaml.load_all(content, yaml.CSafeLoader))
    return frozenset(Named(obj["kind"], obj["metadata"]["name"]) for obj in objects if obj)


def _refused(obj: Obj) -> bool:
    """Return whether no API server takes an object: histories write few that are refused."""
    if obj["kind"] in ROLLED_OUT:
        return bool(obj["spec"]["replicas"] < 0)
    if obj["kind"] != CONFIG_MAP[1] or obj["metadata"].get("namespace", _SPACE) != _SPACE:
        return True
    return bool(obj.get("immutable")) and obj["data"] != _FIRST  # it was created with that


class Pods(NamedTuple):
    """The pods of one workload, by what their containers run and whether they serve."""

    images: Counter[str]
    ready: Counter[str]
    unpullable: frozenset[str]
    unpulled: frozenset[str]  # names of pods

    @property
    def total(self) -> int:
        return self.images.total()


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The cluster at one instant."""

    objects: Mapping[Named, Obj]  # those that belong to a unit
    pods: Mapping[str, tuple[str, str, str]]  # uid -> (name, workload, image)
    of: Mapping[str, Pods] = field(default_factory=dict)  # by workload

    def owner(self, name: Named) -> str:
        return str((self.objects[name]["metadata"].get("annotations") or {}).get(OWNER, ""))


def look(read: Read) -> Seen:
    """Return what the API server shows now."""
    objects = {
        Named(obj["kind"], obj["metadata"]["name"]): obj
        for kind in (*WORKLOADS, CONFIG_MAP)
        for obj in read(*kind)
        if OWNER in (obj["metadata"].get("annotations") or {})
    }
    pods = [pod for pod in read("", "Pod") if not pod["metadata"].get("deletionTimestamp")]
    names = {obj["metadata"]["uid"]: name.name for name, obj in objects.items()}
    replicasets = [(obj["metadata"]["uid"], _controller(obj)) for obj in read(*REPLICASET)]
    names |= {uid: names[above] for uid, above in replicasets if above in names}
    rows = {
        pod["metadata"]["uid"]: (
            pod["metadata"]["name"],
            names.get(_controller(pod), ""),
            runs(pod["spec"]),
        )
        for pod in pods
    }
    sets = {name.name for name in objects if name.kind in ROLLED_OUT}
    return Seen(
        objects=objects,
        pods=rows,
        of={name: _pods(p for p in pods if names.get(_controller(p)) == name) for name in sets},
    )


def runs(spec: Obj) -> str:
    """Return what tells the pods of a template apart: the image and the environment."""
    container = spec["containers"][0]
    env = "".join(f" {one['value']}" for one in container.get("env") or () if one["name"] == "V")
    return f"{container['image']}{env}"


def _controller(pod: Obj) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(o["uid"]) for o in owners if o.get("controller")), "")


def _pods(pods: Iterable[Obj]) -> Pods:
    images: Counter[str] = Counter()
    ready: Counter[str] = Counter()
    unpullable, unpulled = set(), set()
    for pod in pods:
        image = runs(pod["spec"])
        status = pod.get("status") or {}
        images[image] += 1
        conditions = {c["type"]: c["status"] for c in status.get("conditions") or ()}
        ready[image] += conditions.get("Ready") == "True"
        for entry in status.get("containerStatuses") or ():
            waiting = (entry.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _PULLS:
                unpullable.add(image)
                unpulled.add(pod["metadata"]["name"])
    return Pods(images, ready, frozenset(unpullable), frozenset(unpulled))


def short(workload: Obj) -> str:
    """Return the word for a workload's kind, as in `asts/web`."""
    kind = str(workload["kind"]).lower()
    return "asts" if (workload["apiVersion"], kind) == _ADVANCED else kind


# What is so ------------------------------------------------------------------------------------


def same(git: Obj, live: Obj) -> bool:
    """Return whether a live object holds everything that git asks of it."""
    return all(_within(git.get(part), live.get(part)) for part in ("data", "spec"))


def _within(asked: Any, there: Any) -> bool:
    if isinstance(asked, Mapping):
        return isinstance(there, Mapping) and all(
            _within(v, there.get(k)) for k, v in asked.items()
        )
    if isinstance(asked, list):
        return (
            isinstance(there, list) and len(asked) == len(there) and all(map(_within, asked, there))
        )
    return asked is None or bool(asked == there) or (asked == 0 and there is None)


def rollout_state(workload: Obj, pods: Pods) -> str:
    """Return the state of a workload at rest."""
    spec, status = workload["spec"], workload.get("status") or {}
    image = runs(spec["template"]["spec"])
    new, replicas = pods.images[image], spec["replicas"]
    if image in pods.unpullable or _waits_in_order(workload, pods):
        return "Stuck"
    if new == pods.total == replicas and pods.ready[image] == replicas:
        return "Done"
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    kept = _kept(rolling.get("partition") or 0, replicas)
    if pods.total == replicas and new >= replicas - kept and pods.ready[image] == new:
        returned = status.get("currentRevision") == status.get("updateRevision")
        return "Stuck" if returned else "Held"  # pods of a revision that git took back
    return "Paused" if spec.get("paused") or rolling.get("paused") else "Rolling"


def _waits_in_order(workload: Obj, pods: Pods) -> bool:
    """Return whether a pod of a StatefulSet that cannot start is not replaced: the next pod is
    looked at when all before it are ready."""
    spec = workload["spec"]
    if workload["kind"] != "StatefulSet" or spec["podManagementPolicy"] == "Parallel":
        return False
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    ordinals = (int(name.rpartition("-")[2]) for name in pods.unpulled)
    return any(ordinal >= (rolling.get("partition") or 0) for ordinal in ordinals)


def _kept(partition: int | str, replicas: int) -> int:
    """Return the pods that a partition keeps: below 100% one of two pods or more is updated."""
    if isinstance(partition, int):
        return min(partition, replicas)
    percent = int(partition.removesuffix("%"))
    kept = -(-percent * replicas // 100)
    return replicas - 1 if percent < 100 and kept >= replicas > 1 else kept


def unit_state(objects: Mapping[Named, Obj] | None, seen: Seen) -> str:
    """Return the state of a unit at rest whose newest commit wants `objects`."""
    if objects is None:
        return "Rejected"
    states = [
        rollout_state(seen.objects[name], seen.of[name.name])
        for name in objects
        if name.kind in ROLLED_OUT
    ]
    return min(states, key=_WORST.index, default="Done")

"""Plays recorded scenarios against an API server: python -m tests.conformance.run_http URL TOKEN.

The server runs the controllers of OpenKruise's kinds, and neither kubelet nor scheduler: this
program plays both. `--gates A,B` chooses the scenarios recorded under exactly these gates;
`--only NAME` (may be repeated) some of them.
"""

from __future__ import annotations

import argparse
import http.client
import json
import ssl
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from gitkruise.errors import Forbidden, NotFound, api_error
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from gitkruise.wire.primitives.times import format_time
from tests.conformance.api import CLUSTER_SCOPED, SERVED
from tests.conformance.play import FILES, QUIET, Player, even

FOLDER: Final = Path(__file__).parent
AT_ONCE: Final = 6  # scenarios; each has a namespace of its own
QUIET_S, POLL_S, LIMIT_S = 0.7, 0.35, 20.0
PATIENT_S: Final = 3.0  # for what differs while six are played on a busy machine
GATES: Final = (
    "CloneSetPartitionRollback",
    "PreDownloadImageForInPlaceUpdate",
    "ImagePullJobGate",
    "ResourcesDeletionProtection",
    "DeletionProtectionForCRDCascadingGate",
)
SUBSET: Final = (  # what is played unless all is asked for
    "scale-out-and-in",
    "pvc-not-reused-when-disabled",
    "inplace-r10-mu0-ms3-p5",
    "sidecar-hot-upgrade-partition",
    "sidecar-with-cloneset",
    "protect-CloneSet-Cascading",
    "protect-ReplicaSet-Always",
    "gate-predownload-5",
    "gate-rollback-percent-InPlaceIfPossible",
)
_WATCHED: Final = (
    "CloneSet", "SidecarSet", "Pod", "ControllerRevision", "PersistentVolumeClaim", "ImagePullJob",
)  # fmt: skip
_LEFT: Final = ("SidecarSet", "CloneSet", "Deployment", "ReplicaSet", "StatefulSet", "Pod")


class HttpApi:
    """One namespace of a server, with the requests of tests.conformance.api.Api."""

    def __init__(self, url: str, token: str) -> None:
        self.namespace = "conf-" + uuid.uuid4().hex[:8]
        trust = ssl._create_unverified_context()
        self._line = http.client.HTTPSConnection(urlsplit(url).netloc, context=trust, timeout=60)
        self._token = token

    def close(self) -> None:
        self._line.close()

    @property
    def stamp(self) -> str:
        return format_time(datetime.now(UTC))  # noqa: TID251  a kubelet's clock

    def ask(self, method: str, path: str, body: Any = None, content: str = "") -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}"}
        headers |= {"Content-Type": content or "application/json"} if data else {}
        self._line.request(method, path, body=data, headers=headers)
        reply = self._line.getresponse()
        answer = json.loads(reply.read())
        if reply.status >= 400:
            raise api_error(answer, reply.status)
        return answer

    def path(self, kind: str, name: str = "", subresource: str = "") -> str:
        ref = SERVED[kind]
        root = f"/apis/{ref.group}/{ref.version}" if ref.group else f"/api/{ref.version}"
        space = "" if kind in CLUSTER_SCOPED else f"/namespaces/{self.namespace}"
        rest = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{space}/{ref.plural}{rest}"

    def create(self, obj: Obj) -> Obj:
        made: Obj = self.ask("POST", self.path(obj["kind"]), obj)
        return made

    def list(self, kind: str) -> list[Obj]:
        found: list[Obj] = self.ask("GET", self.path(kind))["items"]
        return sorted(found, key=lambda obj: str(obj["metadata"]["name"]))

    def find(self, kind: str, name: str) -> Obj | None:
        with suppress(NotFound):
            found: Obj = self.ask("GET", self.path(kind, name))
            return found
        return None

    def merge(self, kind: str, name: str, patch: Obj) -> None:
        self.ask("PATCH", self.path(kind, name), patch, MERGE_PATCH)

    def json_patch(self, kind: str, name: str, operations: Any) -> None:
        self.ask("PATCH", self.path(kind, name), operations, JSON_PATCH)

    def patch_status(self, kind: str, name: str, patch: Obj) -> None:
        self.ask("PATCH", self.path(kind, name, "status"), patch, STRATEGIC_PATCH)

    def bind(self, name: str, binding: Obj) -> None:
        self.ask("POST", self.path("Pod", name, "binding"), binding)

    def delete(self, kind: str, name: str, **options: Any) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        self.ask("DELETE", self.path(kind, name), body)


class Live:
    """A server in real time. Controllers have finished when nothing changed for a while."""

    def __init__(self, url: str, token: str, quiet_s: float) -> None:
        self.api = HttpApi(url, token)
        self._quiet_s = quiet_s

    def rest(self, span: timedelta) -> None:
        self._settle()
        if span != QUIET:
            time.sleep(span.total_seconds())
            self._settle()

    def _settle(self) -> None:
        end, last, since = time.monotonic() + LIMIT_S, self._versions(), time.monotonic()
        while time.monotonic() - since < self._quiet_s and time.monotonic() < end:
            time.sleep(POLL_S)
            now = self._versions()
            if now != last:
                last, since = now, time.monotonic()

    def _versions(self) -> list[str]:
        return [
            obj["metadata"]["uid"] + obj["metadata"]["resourceVersion"]
            for kind in _WATCHED
            for obj in self._own(kind)
        ]

    def _own(self, kind: str) -> list[Obj]:
        """Objects of this play: what belongs to no namespace bears its name."""
        found = self.api.list(kind)
        if kind not in CLUSTER_SCOPED:
            return found
        return [obj for obj in found if self.api.namespace in obj["metadata"]["name"]]

    def clear(self) -> None:
        """Leave no controller work behind; a protected or a vanished object may stay as it is."""
        for kind in _LEFT:
            for obj in self._own(kind):
                with suppress(NotFound, Forbidden):
                    self.api.delete(kind, obj["metadata"]["name"], gracePeriodSeconds=0)
        self.api.close()


def difference(scenario: Obj, recorded: Sequence[Any], live: Live) -> str:
    """How what the server does differs from the recording; "" when it does not."""
    try:
        played = even(Player(scenario, live).play())
    finally:
        live.clear()
    wanted = even(recorded)
    for at, (mine, theirs) in enumerate(zip(played, wanted, strict=False)):
        if mine != theirs:
            return f"observation {at}\n  want {json.dumps(theirs)}\n  got  {json.dumps(mine)}"
    return "" if len(played) == len(wanted) else f"{len(played)} observations, not {len(wanted)}"


def differences(
    chosen: Sequence[Obj], traces: Obj, url: str, token: str
) -> Iterator[tuple[str, str]]:
    """(scenario, how it differs), in the order of `chosen`; several are played at a time.

    What differs is played again, alone and with patience: that somebody was slow is no difference.
    """

    def play(scenario: Obj, quiet_s: float = QUIET_S) -> str:
        return difference(scenario, traces[scenario["name"]], Live(url, token, quiet_s))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        first = list(pool.map(play, chosen))
    for scenario, found in zip(chosen, first, strict=True):
        yield scenario["name"], play(scenario, PATIENT_S) if found else ""


def scenarios(gates: Sequence[str], only: Sequence[str]) -> list[Obj]:
    return [
        doc
        for file in FILES
        for doc in yaml.safe_load_all((FOLDER / file).read_text())
        if set(doc.get("gates") or ()) == set(gates) and (not only or doc["name"] in only)
    ]


def gate_flags(gates: Sequence[str]) -> list[str]:
    """How the gitkruise command is told of `gates`."""
    return ["--feature-gates", ",".join(f"{gate}=true" for gate in gates)] if gates else []


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Play recorded scenarios against an API server.")
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("--gates", default="")
    parser.add_argument("--only", action="append", default=[])
    asked = parser.parse_args(arguments)
    traces = json.loads((FOLDER / "traces.json").read_text())
    failed = 0
    chosen = scenarios([g for g in asked.gates.split(",") if g], asked.only)
    for name, found in differences(chosen, traces, asked.url, asked.token):
        failed += bool(found)
        say(f"DIFF  {name} at {found}" if found else f"ok    {name}")
    say(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A thousand watches of one collection: how long after its request an event is everywhere."""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.doors import BARE, Server, own
from bench.lines import Door, Line, Lines, body_of, lines
from bench.timing import Row
from gitkruise.wire.primitives.requests import MERGE_PATCH
from tests.e2e.cluster import sandbox

WATCHES: Final = 1_000
RATE: Final = 200  # events a second
SECONDS: Final = 10
WRITERS: Final = 64
OBJECTS: Final = 100
GOAL_MS: Final = 500
MAPS: Final = "/api/v1/namespaces/default/configmaps"
_FILES: Final = 4 * WATCHES
_QUIET_S: Final = 30.0


def rows() -> Iterator[Row]:
    """Latencies are of the clock, from the moment a request is due to be sent."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, most), most))
    with (
        tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name,
        sandbox(Path(name), *BARE) as cluster,
    ):
        yield from _measured(own(cluster))


def _measured(server: Server) -> Iterator[Row]:
    door = server.door
    with lines(door, WRITERS) as writers:
        writers.run(_creation(door, number) for number in range(OBJECTS))
        listed = json.loads(body_of(writers.one(door.request("GET", MAPS))))
        since = listed["metadata"]["resourceVersion"]
        watch = door.request("GET", f"{MAPS}?watch=1&resourceVersion={since}")
        with lines(door, WATCHES, watch) as watches:
            before, client, start = server.cpu_s, time.process_time(), time.monotonic()
            waited = sorted(_Stream(door, watches, writers).run())
            seconds, spent = time.monotonic() - start, time.process_time() - client
            name = f"{WATCHES:,} watches, {RATE} events a second"
            p99, last = waited[int(0.99 * len(waited))], waited[-1]
            yield Row(name=f"{name}: 99 % within", value=1000 * p99, unit="ms", limit=GOAL_MS)
            yield Row(name="  all within", value=1000 * last, unit="ms")
            yield Row(name="  deliveries", value=len(waited) / seconds, unit="/s")
            busy = 100 * (server.cpu_s - before) / seconds
            yield Row(name="  CPU of the server", value=busy, unit="% of a core")
            yield Row(name="  CPU of the client", value=100 * spent / seconds, unit="% of a core")
            yield Row(name="  memory of the server", value=server.rss_mib, unit="MiB")


def _creation(door: Door, number: int) -> bytes:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"map-{number}"}}
    return door.request("POST", MAPS, json.dumps({**body, "data": {"text": "x" * 300}}).encode())


class _Stream:
    """Patches at a steady rate on one side, their events on the other."""

    def __init__(self, door: Door, watches: Lines, writers: Lines) -> None:
        self._door = door
        self._watches, self._writers = watches, writers
        self._free = list(writers.lines)
        self._seen: dict[Line, int] = dict.fromkeys(watches.lines, 0)
        self._notes: list[tuple[float, int, int]] = []  # (when, first event, how many)
        self._sent = 0

    def run(self) -> list[float]:
        """Seconds from the instant each request was due to each delivery of its event."""
        total, start = RATE * SECONDS, time.monotonic()
        left = total * len(self._seen)
        last = start
        while left:
            self._send(start, total)
            found = self._read()
            left -= found
            last = time.monotonic() if found or self._sent < total else last
            assert time.monotonic() - last < _QUIET_S, f"{left} deliveries did not come"
        due = [start + number / RATE for number in range(total)]
        return [
            at - due[number]
            for at, first, count in self._notes
            for number in range(first, first + count)
        ]

    def _send(self, start: float, total: int) -> None:
        now = time.monotonic()
        while self._free and self._sent < total and start + self._sent / RATE <= now:
            body = json.dumps({"data": {"turn": str(self._sent)}}).encode()
            path = f"{MAPS}/map-{self._sent % OBJECTS}"
            self._free.pop().write(self._door.request("PATCH", path, body, content=MERGE_PATCH))
            self._sent += 1

    def _read(self) -> int:
        """Number of events that came."""
        for line in self._writers.ready(0):
            if (answer := line.reply()) is not None:
                assert answer.startswith(b"HTTP/1.1 200"), answer
                self._free.append(line)
        found = 0
        for line in self._watches.ready(1 / RATE):
            count = line.read().count(b'{"type":"MODIFIED"')
            if count:
                self._notes.append((time.monotonic(), self._seen[line], count))
                self._seen[line] += count
                found += count
        return found

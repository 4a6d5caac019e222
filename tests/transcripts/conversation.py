"""Plays a random conversation: its requests one by one, and at its end what the watches saw."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any, Final

from tests.transcripts.bodies import DEFINITION, GROUP, KINDS, Talked
from tests.transcripts.player import Exchange, answer_to, decoded, filled, identity, reply_of
from tests.transcripts.script import TYPES, Step
from tests.transcripts.talker import Stream, Talker
from tests.transcripts.volatile import Names

LOOKS: Final = 200
LAST: Final = {"tier": "v", "zone": "z", "end": "yes"}  # every selection of a watch takes it
NOBODY: Final = "00000000-0000-0000-0000-000000000000"


def define(talker: Talker) -> None:
    """Have the custom resource served in both its versions."""
    at = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = talker.ask(at, "POST", DEFINITION)
    assert made.status == 201, made.data
    for version in ("v1", "v2"):
        for _ in range(LOOKS):
            if talker.ask(f"/apis/{GROUP}/{version}/gears").status == 200:
                break
        else:
            raise AssertionError(f"{version} is never served")


@dataclass(slots=True)
class Conversation:
    """One conversation in a namespace of its own."""

    talker: Talker
    namespace: str
    names: Names = field(init=False)
    kept: defaultdict[str, str] = field(default_factory=lambda: defaultdict(str))
    watches: list[tuple[Step, Stream]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = Names(self.namespace)

    def play(self, steps: Sequence[Step]) -> list[Exchange]:
        """Every exchange, and then the events of every watch."""
        made = self.talker.ask("/api/v1/namespaces", "POST", {"metadata": {"name": self.namespace}})
        assert made.status == 201, made.data
        start = json.loads(made.data)["metadata"]["resourceVersion"]
        self.kept |= {"ns": self.namespace, "start": start, "version": start, "uid": NOBODY}
        try:
            replies = [
                self._step(turn, step) for turn, step in zip(ascii_lowercase, steps, strict=False)
            ]
            return replies + self._seen()
        finally:
            for _, stream in self.watches:
                stream.close()

    def _step(self, turn: str, step: Step) -> Exchange:
        self.kept["turn"] = turn
        if step.method == "WATCH":
            return self._watch(step)
        answer = answer_to(step, self.talker, self.kept)
        self.names.passing = "dryRun=All" in step.path
        body = decoded(answer)
        self.kept |= identity(body)
        for page in step.keep:
            self.kept[page] = body["metadata"].get("continue", "")
        return Exchange(f"{step.method} {step.path}", reply_of(answer, body, self.names))

    def _watch(self, step: Step) -> Exchange:
        if "resourceVersion=${" not in step.path:
            self._settle(step)
        opened = self.talker.watch(filled(step.path, self.kept))
        title = f"WATCH {step.path}"
        if isinstance(opened, Stream):
            self.watches.append((step, opened))
            return Exchange(title, {"status": 200})
        return Exchange(title, reply_of(opened, decoded(opened), self.names))

    def _settle(self, step: Step) -> None:
        """A watch from any version starts with the present once the server's cache has it."""
        collection = filled(step.path.partition("?")[0], self.kept)
        for _ in range(LOOKS):
            newest, cached = (
                json.loads(self.talker.ask(collection + query).data)["items"]
                for query in ("", "?resourceVersion=0")
            )
            if newest == cached:
                return
        raise AssertionError(f"{collection} is never the same in the server's cache")

    def _seen(self) -> list[Exchange]:
        """What each watch saw up to a last change that it must see."""
        paths = {step.path.partition("?")[0] for step, _ in self.watches}
        for talked in KINDS:
            if talked.path in paths:
                self._last(talked)
        found = []
        for step, stream in self.watches:
            events = self.names.plain(_until_last(stream))
            found.append(Exchange(f"events of {step.path}", {"events": events}))
        return found

    def _last(self, talked: Talked) -> None:
        path = filled(talked.path, self.kept)
        change = json.dumps({"metadata": {"labels": LAST}}).encode()
        sent = {"Content-Type": TYPES["merge"]}
        answer = self.talker.ask(f"{path}/a", "PATCH", change, sent)
        if answer.status == 404:
            body = talked.whole({"name": "a", "labels": LAST}, talked.plain, {})
            answer = self.talker.ask(path, "POST", body)
        assert answer.status in {200, 201}, answer.data


def _until_last(stream: Stream) -> list[Mapping[str, Any]]:
    events: list[Mapping[str, Any]] = []
    for event in stream.events():
        events.append(event)
        labels = event["object"].get("metadata", {}).get("labels") or {}
        if event["type"] == "ERROR" or labels.get("end") == "yes":
            return events
    raise AssertionError(f"the watch ended by itself after {events}")

"""Plays a scene against a server: its requests, and what webhooks were told of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.hooks.listener import Listener, path_of
from tests.transcripts.player import Client, Exchange, answer_to, decoded, identity, reply_of
from tests.transcripts.script import Chapter, Step
from tests.transcripts.volatile import Names

FOLDER: Final = Path(__file__).parent
CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/"
PROBE: Final = "probe.example.com"
REFUSED: Final = {"name": "probe", "response": {"allowed": False}}
RULE: Final = {
    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
}  # fmt: skip
# What is sent to a subresource has managers of its own in the real server.
PARTS: Final = frozenset({"Scale", "Binding", "Eviction"})
NOBODYS: Final = frozenset({"uid", "userInfo", "via"})


@dataclass
class Stage:
    """A server, a webhook, and the scene that is on."""

    client: Client
    listener: Listener
    namespace: str
    kept: dict[str, str] = field(default_factory=dict)
    turns: Any = field(default_factory=count)

    def play(self, chapter: Chapter) -> list[Exchange]:
        """Every exchange of the chapter in a fresh namespace, `reviews` among what is compared."""
        names = Names(self.namespace)
        self.kept |= {"ns": self.namespace, "port": str(self.listener.port)}
        made = self.client.ask("/api/v1/namespaces", "POST", {"metadata": {"name": self.namespace}})
        assert made.status == 201, made.data
        registered: list[str] = []
        try:
            return [self._exchange(step, names, registered) for step in chapter.steps]
        finally:
            for path in registered:
                self.client.ask(path, "DELETE")
                self._settled(path.rpartition("/")[0])

    def _exchange(self, step: Step, names: Names, registered: list[str]) -> Exchange:
        whole = replace(step, body=self._calling(step.body))
        answer = answer_to(whole, self.client, self.kept)
        names.passing = "dryRun=All" in step.path
        body = decoded(answer)
        self.kept |= identity(body)
        reply = reply_of(answer, self._plain(body), names)
        title = f"{step.method} {step.path}"
        if step.path.startswith(CONFIGURATIONS):
            plural = step.path.removeprefix(CONFIGURATIONS).partition("?")[0].partition("/")[0]
            heeded = answer.status in (200, 201) and "dryRun" not in step.path
            if heeded and step.method == "POST":
                registered.append(f"{CONFIGURATIONS}{plural}/{body['metadata']['name']}")
            if heeded:
                self._settled(CONFIGURATIONS + plural)
        asked = sorted(current(self.listener.drain()), key=lambda one: str(one["via"]))
        reviews = [{"via": one["via"], **compared_part(one)} for one in asked]
        if reviews:
            reply = {**reply, "reviews": names.plain(self._plain(reviews))}
        return Exchange(title, reply)

    def _calling(self, value: Any) -> Any:
        """`value` with each `answers` of a clientConfig as a URL (or a service's path) and the
        authority that proves it."""
        if isinstance(value, list):
            return [self._calling(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if "answers" not in value:
            return {key: self._calling(item) for key, item in value.items()}
        rest = {key: item for key, item in value.items() if key != "answers"}
        path = path_of(value["answers"])
        if "service" in rest:
            rest["service"] = {"path": path, **rest["service"]}
            if rest["service"].get("port") == "${port}":
                rest["service"]["port"] = self.listener.port
        else:
            rest["url"] = self.listener.url + path
        return {"caBundle": self.listener.bundle, **rest}

    def _plain(self, value: Any) -> Any:
        """`value` without what differs from run to run of the webhook."""
        text = json.dumps(value)
        text = text.replace(self.listener.bundle, "<ca>")
        text = text.replace(f"127.0.0.1:{self.listener.port}", "<hook>")
        return json.loads(text.replace(f'"port": {self.listener.port}', '"port": "<port>"'))

    def _settled(self, collection: str) -> None:
        """Wait until the server heeds what was registered so far: one more is heeded after it."""
        name = f"probe-{self.namespace}-{next(self.turns)}"
        url = self.listener.url + path_of(REFUSED)
        hook = {
            "name": PROBE,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": url, "caBundle": self.listener.bundle},
            "rules": [RULE],
            "objectSelector": {"matchLabels": {"probe": name}},
        }
        made = self.client.ask(collection, "POST", {"metadata": {"name": name}, "webhooks": [hook]})
        assert made.status == 201, made.data
        probe = {"metadata": {"name": name, "labels": {"probe": name}}}
        step = Step(
            "POST", "/api/v1/namespaces/default/configmaps?dryRun=All", probe,
            "application/json", until=400,
        )  # fmt: skip
        answer_to(step, self.client, self.kept)
        gone = self.client.ask(f"{collection}/{name}", "DELETE")
        assert gone.status == 200, gone.data
        self.listener.asked = [
            one for one in self.listener.asked if not str(one.get("name")).startswith("probe-")
        ]


def current(reviews: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the reviews of the attempts that were stored.

    The real server first tries a change on its watch cache. Where that is behind etcd, the write
    fails and everything is tried again, webhooks included.
    """
    stored: dict[str, int] = {}
    for uid, at in map(_version, reviews):
        stored[uid] = max(stored.get(uid, 0), at)
    return [review for review in reviews for uid, at in [_version(review)] if at == stored[uid]]


def _version(review: Mapping[str, Any]) -> tuple[str, int]:
    """Return (uid, version) of the object before the change; ("", 0) when there is none."""
    meta = (review.get("oldObject") or {}).get("metadata") or {}
    return meta.get("uid") or "", int(meta.get("resourceVersion") or 0)


def compared_part(review: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared of a review."""
    compared = {key: value for key, value in review.items() if key not in NOBODYS}
    if review["kind"]["kind"] in PARTS:
        for name in ("object", "oldObject"):
            meta = (compared[name] or {}).get("metadata", {})
            meta.pop("managedFields", None)
    return compared

"""Plays a chapter against a server over HTTPS and says what it answered, made comparable."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tests.transcripts.script import Chapter, Step
from tests.transcripts.volatile import Names

LOOKS: Final = 100
KEPT: Final = re.compile(r"\$\{(\w+)\}")


class Answer(Protocol):
    """What came back: `tests.sandbox.served.Answer` is one."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def data(self) -> bytes: ...


class Client(Protocol):
    """Sends one request: `tests.sandbox.served.Client` is one."""

    def ask(
        self, path: str, method: str = ..., body: Any = ..., headers: Mapping[str, str] | None = ...
    ) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """A step and its reply: status, media type, warnings, and the body or the events of a watch."""

    step: str
    reply: Mapping[str, Any]


def play(chapter: Chapter, client: Client, namespace: str) -> list[Exchange]:
    """Every exchange of the chapter in a fresh namespace."""
    kept = {"ns": namespace, "version": "1", "uid": "00000000-0000-0000-0000-000000000000"}
    names = Names(namespace, shuffled=chapter.controlled)
    made = client.ask("/api/v1/namespaces", "POST", {"metadata": {"name": namespace}})
    assert made.status == 201, made.data
    exchanges = []
    for step in chapter.steps:
        answer = answer_to(step, client, kept)
        names.passing = "dryRun=All" in step.path
        body = decoded(answer, watch="watch=" in step.path)
        kept |= identity(body)
        for name, path in step.keep.items():
            kept[name] = _at(body, path)
        exchanges.append(Exchange(f"{step.method} {step.path}", reply_of(answer, body, names)))
    return exchanges


def answer_to(step: Step, client: Client, kept: Mapping[str, str]) -> Answer:
    """The reply, or the first one with the status and the values that are waited for."""
    answer = _send(step, client, kept)
    for _ in range(LOOKS):
        if step.until in (0, answer.status) and _shows(answer, step.seen):
            return answer
        time.sleep(0.1)  # the real server publishes a definition when it comes to it
        answer = _send(step, client, kept)
    wanted = step.seen or step.until
    raise AssertionError(f"{step.path} stays {answer.status} {answer.data!r}, not {wanted}")


def _shows(answer: Answer, values: Mapping[str, Any]) -> bool:
    """Whether a reply has the values at the paths."""
    body = json.loads(answer.data) if values else {}
    return all(_found(body, path) == value for path, value in values.items())


def _found(body: Any, path: str) -> Any:
    try:
        return _value(body, path)
    except (KeyError, IndexError, TypeError):
        return ""


def _send(step: Step, client: Client, kept: Mapping[str, str]) -> Answer:
    headers = {"Accept": step.accept, "User-Agent": "transcript/1"}
    if step.content_type:
        headers["Content-Type"] = step.content_type
    body = None
    if step.content_type:  # compact: a ControllerRevision's data is kept as it was written
        body = json.dumps(filled(step.body, kept), separators=(",", ":")).encode()
    return client.ask(filled(step.path, kept), step.method, body, headers)


def filled(value: Any, kept: Mapping[str, str]) -> Any:
    """`value` with `${name}` replaced by what was kept under the name."""
    if isinstance(value, str):
        return KEPT.sub(lambda found: kept[found[1]], value)
    if isinstance(value, Mapping):
        return {key: filled(item, kept) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, kept) for item in value]
    return value


def decoded(answer: Answer, *, watch: bool = False) -> Any:
    """The body: JSON, the events of a watch that ended, or a text."""
    if watch and answer.status == 200:
        return [json.loads(line) for line in answer.data.splitlines()]
    if "json" in answer.headers.get("Content-Type", ""):
        return json.loads(answer.data)
    return answer.data.decode()


def identity(body: Any) -> dict[str, str]:
    """uid and version of an object that is stored."""
    meta = body.get("metadata") or {} if isinstance(body, Mapping) else {}
    if not ("uid" in meta and "resourceVersion" in meta):
        return {}
    return {"version": meta["resourceVersion"], "uid": meta["uid"]}


def _at(body: Any, path: str) -> str:
    try:
        return str(_value(body, path))
    except (KeyError, IndexError):
        raise AssertionError(f"no {path} to keep in {body}") from None


def _value(body: Any, path: str) -> Any:
    for part in path.split("."):
        body = body[int(part) if isinstance(body, list) else part]
    return body


def reply_of(answer: Answer, body: Any, names: Names) -> Mapping[str, Any]:
    """What is compared of a reply."""
    headers = {key.lower(): value for key, value in answer.headers.items()}
    document: dict[str, Any] = {
        "status": answer.status,
        "type": headers.get("content-type", "").split(";charset")[0],
    }
    if "warning" in headers:
        document["warning"] = names.text(headers["warning"])
    return {**document, "body": names.plain(body)}

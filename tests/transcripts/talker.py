"""A client that keeps its connection, and opens watches beside it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.sandbox.served import Answer, Client

PATIENCE_S: Final = 10.0  # for the next event of a watch


@dataclass(slots=True)
class Stream:
    """A watch that goes on."""

    connection: http.client.HTTPSConnection
    reply: http.client.HTTPResponse

    def events(self) -> Iterator[dict[str, Any]]:
        """Every event, as they come; raises TimeoutError when the next one does not."""
        for line in iter(self.reply.readline, b""):
            yield json.loads(line)

    def close(self) -> None:
        self.reply.close()
        self.connection.close()


@dataclass(slots=True)
class Talker:
    """Requests to one server, one after the other over one connection."""

    client: Client
    _open: list[http.client.HTTPSConnection] = field(default_factory=list)

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """As `Client.ask`."""
        if not self._open:
            self._open.append(self.client.connect())
        connection = self._open[0]
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = self._headers({"Content-Type": "application/json"} if body is not None else {})
        try:
            connection.request(method, path, data, sent | dict(headers or {}))
            got = connection.getresponse()
            return Answer(got.status, dict(got.headers), got.read())
        except BaseException:
            self.close()
            raise

    def watch(self, path: str) -> Stream | Answer:
        """An open watch, or the refusal."""
        connection = self.client.connect()
        connection.timeout = PATIENCE_S
        connection.request("GET", path, None, self._headers({"Accept": "application/json"}))
        reply = connection.getresponse()
        if reply.status == 200:
            return Stream(connection, reply)
        answer = Answer(reply.status, dict(reply.headers), reply.read())
        connection.close()
        return answer

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self.client.token}",
            "User-Agent": "transcript/1",
            **more,
        }

    def close(self) -> None:
        while self._open:
            self._open.pop().close()

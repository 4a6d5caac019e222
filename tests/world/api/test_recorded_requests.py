"""Whole conversations with a kube-apiserver 1.34, replayed: status, reason and sentence agree.

Rows marked `own` are where the model cluster differs on purpose (a 500 of the server that is the
client's fault is a 400 here, and admission is not part of a bare World); the others were compared.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.world.api_client import Api, recorded

CONVERSATIONS: dict[str, Any] = recorded("requests.json")
VARYING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|current: \d+|in record \(\d+\)")


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversation(name: str) -> None:
    api = Api()
    for row in CONVERSATIONS[name]:
        before = api.world.version
        code, body = api.answer(*row["request"])
        assert code == row["code"], (row["request"], body)
        if "message" in row:
            message = VARYING.sub("U", body.get("message", ""))
            assert message == row["message"]
            assert body.get("reason") == row["reason"] or not row["reason"]
        if code >= 300:
            assert api.world.version == before, "STORE-15: a refusal leaves no trace"


def test_the_record_is_worth_playing() -> None:
    rows = [row for rows in CONVERSATIONS.values() for row in rows]
    assert sum("message" in row for row in rows) >= 90
    assert sum(row.get("own", False) for row in rows) <= 12

"""From a request to the verb that answers it."""
from __future__ import annotations
from datetime import datetime
from gitkruise.wire.request import ApiReply, ApiRequest
from gitkruise.world.state import State


def handle(state: State, request: ApiRequest, now: datetime, *, user: str) -> ApiReply:
    raise AssertionError

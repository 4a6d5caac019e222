"""Webhook reviews of one request: the reviews sent and the replies received."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from gitkruise.admission.webhooks.matching import Webhook
from gitkruise.admission.webhooks.responses import WebhookReply
from gitkruise.wire.primitives.names import Obj

# (expression in CEL, its variables) -> its answer. Raises ValueError with the reason why it has
# none; a variable's missing field is one.
Matches: TypeAlias = Callable[[str, Mapping[str, Any]], bool]


class RegisteredWebhooks(NamedTuple):
    """All webhooks in the order they are asked, and the configurations they were read from."""

    mutating: tuple[Webhook, ...]
    validating: tuple[Webhook, ...]
    read_from: tuple[list[Obj], list[Obj]]


@dataclass(frozen=True, slots=True, eq=False)
class ReviewRequest:
    """An AdmissionReview to be sent: its request but for the uid. `digest` names all it says."""

    webhook: Webhook
    request: Obj
    digest: str


class Unanswered(Exception):
    """A request cannot go on before these webhooks are asked, all at the same time."""

    def __init__(self, *questions: ReviewRequest) -> None:
        super().__init__(", ".join(question.webhook.name for question in questions))
        self.questions = questions


@dataclass(slots=True)
class Reviews:
    """Webhook replies of one request so far. The uid and name of a created object derive from
    `ticket`, so that they are the same in each round."""

    ticket: str
    judge: Matches
    answers: dict[str, WebhookReply] = field(default_factory=dict)  # by the question's digest

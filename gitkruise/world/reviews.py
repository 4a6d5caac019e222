"""The reviews of one request by webhooks: what was asked, and what is known of the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from gitkruise.admission.webhook_answers import Answer
from gitkruise.admission.webhooks import Webhook
from gitkruise.wire.names import Obj

# (expression in CEL, its variables) -> its answer. Raises ValueError with the reason why it has
# none; a variable's missing field is one.
Judge: TypeAlias = Callable[[str, Mapping[str, Any]], bool]


class Registered(NamedTuple):
    """All webhooks in the order they are asked, and the configurations they were read from."""

    mutating: tuple[Webhook, ...]
    validating: tuple[Webhook, ...]
    read_from: tuple[list[Obj], list[Obj]]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """An AdmissionReview to be sent: its request but for the uid. `digest` names all it says."""

    webhook: Webhook
    request: Obj
    digest: str


class Unanswered(Exception):
    """A request cannot go on before these webhooks are asked, all at the same time."""

    def __init__(self, *questions: Question) -> None:
        super().__init__(", ".join(question.webhook.name for question in questions))
        self.questions = questions


@dataclass(slots=True)
class Reviews:
    """What one request has learnt so far. `ticket` is its own: uid and name of what it creates
    come from it, so that they are the same in each round."""

    ticket: str
    judge: Judge
    answers: dict[str, Answer] = field(default_factory=dict)  # by the question's digest

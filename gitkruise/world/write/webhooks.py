"""Calls of registered webhooks for one write: mutating ones in order, validating ones together.

Source: the MutatingAdmissionWebhook and ValidatingAdmissionWebhook plug-ins of kube-apiserver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gitkruise.admission.conversion.registry import convert
from gitkruise.admission.webhooks.matching import (
    EXEMPT,
    MUTATING,
    VALIDATING,
    RequestForm,
    Webhook,
    Write,
    form_for,
    might_mean,
    read_webhooks,
    review,
)
from gitkruise.admission.webhooks.responses import (
    CallFailed,
    WebhookReply,
    call_failed,
    no_dry_runs,
    patched,
    verdict_of,
)
from gitkruise.errors import Forbidden, StatusDetails
from gitkruise.wire.patch.json_patch import same
from gitkruise.wire.primitives.gojson import compact
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import NAMESPACES
from gitkruise.world.store.admission_cache import differ
from gitkruise.world.store.api_errors import no_namespace
from gitkruise.world.store.commit import namespace_key
from gitkruise.world.store.request_context import RequestContext
from gitkruise.world.store.webhook_rounds import RegisteredWebhooks, ReviewRequest, Unanswered


def registered(call: RequestContext) -> RegisteredWebhooks:
    """The webhooks as they are registered now; read again only after a configuration changed."""
    state = call.state
    found = (state.objects(MUTATING), state.objects(VALIDATING))
    known = state.registered
    if known is None or any(map(differ, known.read_from, found)):
        mutating, validating = (read_webhooks(configurations) for configurations in found)
        known = state.registered = RegisteredWebhooks(mutating, validating, found)
    return known


def may_be_mutated(call: RequestContext, operation: str) -> bool:
    """Return whether a mutating webhook is registered that might match this write."""
    if call.reviews is None or _is_exempt(call):
        return False
    asked = (operation, call.request.resource, call.subresource)
    return any(might_mean(webhook, *asked) for webhook in registered(call).mutating)


def mutated(call: RequestContext, write: Write, renew: Callable[[Obj], Obj]) -> Obj | None:
    """Return the object after mutating webhooks, in the version of the request.

    `renew` decodes and defaults an object that a webhook has patched. After a change, earlier
    webhooks with reinvocationPolicy IfNeeded are called once more. Raises Unanswered, and ApiError
    for a denial.
    """
    webhooks = () if _is_exempt(call) else registered(call).mutating
    asked, again, reinvoke = set[str](), set[str](), False
    for turn in (0, 1):
        for webhook in webhooks:
            if turn and webhook.uid not in again:
                continue
            form = _form(call, webhook, write)
            if form is None:
                continue
            before = write.obj
            write = replace(write, obj=_patched(call, webhook, write, form, renew))
            if write.obj is not before and not same(write.obj, before):
                again, asked, reinvoke = again | asked, set(), True
            if webhook.again:
                asked.add(webhook.uid)
        if not reinvoke:
            break
    return write.obj


def _patched(
    call: RequestContext,
    webhook: Webhook,
    write: Write,
    form: RequestForm,
    renew: Callable[[Obj], Obj],
) -> Obj | None:
    reviews = call.reviews
    assert reviews is not None
    if write.dry_run and not webhook.dry_runs:
        raise no_dry_runs(webhook)
    question = _question(webhook, write, form)
    answer = reviews.answers.get(question.digest)
    if answer is None:
        raise Unanswered(question)
    operations = _carried_out(call, webhook, answer)
    if not operations:
        return write.obj
    made = patched(webhook, _in_form(write.obj, form), operations)
    version = write.kind[1]
    return renew(made if form.kind == write.kind else convert(made, version))


def _carried_out(call: RequestContext, webhook: Webhook, answer: WebhookReply) -> Any:
    """The operations of a patch, if there are any. Raises what refuses the write."""
    try:
        verdict = verdict_of(webhook, answer)
    except CallFailed as error:
        if webhook.ignored:
            return ()
        raise call_failed(webhook, error) from None
    call.warnings.extend(text for text in verdict.warnings if text not in call.warnings)
    if verdict.refusal is not None:
        raise verdict.refusal
    return verdict.patch


def validated(call: RequestContext, write: Write) -> None:
    """Let all validating webhooks review an object as it will be stored.

    Raises Unanswered, and the first denial in registration order (the server raises the one that
    arrives first).
    """
    reviews = call.reviews
    if reviews is None or _is_exempt(call):
        return
    matching = [
        (webhook, form)
        for webhook in registered(call).validating
        if (form := _form(call, webhook, write)) is not None
    ]
    able = [pair for pair in matching if pair[0].dry_runs or not write.dry_run]
    asked = {webhook.uid: _question(webhook, write, form) for webhook, form in able}
    missing = [q for q in asked.values() if q.digest not in reviews.answers]
    if missing:
        raise Unanswered(*missing)
    for webhook, _ in matching:
        if webhook.uid not in asked:
            raise no_dry_runs(webhook)
        _carried_out(call, webhook, reviews.answers[asked[webhook.uid].digest])


def _is_exempt(call: RequestContext) -> bool:
    return call.kind.group_kind in EXEMPT


def _form(call: RequestContext, webhook: Webhook, write: Write) -> RequestForm | None:
    """Return the form in which a webhook receives a write; None when it does not match.

    Raises NotFound for a namespace whose labels would decide, and Forbidden when a condition has
    no answer.
    """
    missing = False
    if webhook.namespaces and (write.namespace or write.resource == NAMESPACES):
        labels = _namespace_labels(call, write)
        missing = labels is None
        if not missing and not webhook.namespaces.matches(labels):
            return None
    if webhook.objects and not any(_selected(webhook, obj) for obj in (write.obj, write.old)):
        return None
    of = write.resource
    versions = [k for k in call.state.catalog.kinds() if (k.group, k.plural) == (of.group, of[2])]
    form = form_for(webhook, write, versions)
    if form is not None and missing:
        raise no_namespace(write.namespace)
    return form if form is not None and _conditions_hold(call, webhook, write, form) else None


def _namespace_labels(call: RequestContext, write: Write) -> Mapping[str, str] | None:
    """Of the namespace a write is in; a new or changed one has those it is to have."""
    if write.resource == NAMESPACES and not write.subresource and write.obj is not None:
        return write.obj["metadata"].get("labels") or {}
    space = call.state.get(namespace_key(write.namespace))
    return None if space is None else space["metadata"].get("labels") or {}


def _selected(webhook: Webhook, obj: Obj | None) -> bool:
    return obj is not None and webhook.objects.matches(obj["metadata"].get("labels"))


def _conditions_hold(
    call: RequestContext, webhook: Webhook, write: Write, form: RequestForm
) -> bool:
    """Return whether every match condition is true; a false one outweighs an evaluation error."""
    if not webhook.conditions:
        return True
    assert call.reviews is not None
    obj, old = (_in_form(one, form) for one in (write.obj, write.old))
    request = review(write, form, None, None)
    del request["object"], request["oldObject"]
    variables = {"object": obj, "oldObject": old, "request": request}
    unclear: list[str] = []
    for condition in webhook.conditions:
        text = condition["expression"]
        try:
            if not call.reviews.judge(text, variables):
                return False
        except ValueError as error:
            unclear.append(f"expression '{text}' resulted in error: {error}")
    if not unclear:
        return True
    if webhook.ignored:
        return False
    of, listed = write.resource, unclear[0] if len(unclear) == 1 else f"[{', '.join(unclear)}]"
    title = f"{of.plural}.{of.group}" if of.group else of.plural
    raise Forbidden(
        f'{title} "{write.name}" is forbidden: {listed}',
        StatusDetails(name=write.name, group=of.group, kind=of.plural),
    )


def _question(webhook: Webhook, write: Write, form: RequestForm) -> ReviewRequest:
    request = review(write, form, _in_form(write.obj, form), _in_form(write.old, form))
    question = compact([webhook.uid, webhook.client, webhook.timeout_s, request])
    return ReviewRequest(webhook, request, hashlib.sha256(question).hexdigest())


def _in_form(obj: Obj | None, form: RequestForm) -> Obj | None:
    return None if obj is None else convert(obj, form.kind[1])

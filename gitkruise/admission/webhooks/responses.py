"""Webhook responses and their effect on a write: none, a JSON patch, a denial, a failed call."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.admission.webhooks.matching import Webhook
from gitkruise.errors import (
    ApiError,
    BadRequest,
    Cause,
    InternalError,
    InvalidObject,
    StatusDetails,
    TooLarge,
    Unreasoned,
    denial,
)
from gitkruise.wire.patch.json_patch import PatchDoesNotApply, json_patch, leads_to, pointer_tokens
from gitkruise.wire.primitives.names import Obj, split_api_version

REVIEW: Final = "admission.k8s.io/v1"
_TYPES: Final[Mapping[str, type]] = {
    "allowed": bool, "patch": str, "patchType": str, "status": Mapping, "warnings": list,
}  # fmt: skip
_GO_TYPES: Final[Mapping[type, str]] = {dict: "object", str: "string", bool: "bool"}
_TEXTS: Final = frozenset({"name", "group", "kind", "uid", "reason", "message", "field"})
_REFUSAL_MIN: Final = 400  # the least HTTP status of a refusal


@dataclass(frozen=True, slots=True)
class WebhookReply:
    """The reply of a webhook to request `uid`: a body, or the reason why there is none."""

    uid: str
    body: Any = None
    failure: str = ""


class CallFailed(Exception):
    """There is no verdict; failurePolicy says whether that matters."""


@dataclass(frozen=True, slots=True)
class WebhookVerdict:
    """A write may go on, changed by `patch`; or not, for `refusal`."""

    patch: Sequence[Mapping[str, Any]] = ()
    warnings: tuple[str, ...] = ()
    refusal: ApiError | None = None


def verdict_of(webhook: Webhook, answer: WebhookReply) -> WebhookVerdict:
    """Raises CallFailed. Source: VerifyAdmissionResponse and the dispatchers around it."""
    if answer.failure:
        raise CallFailed(f"failed to call webhook: {answer.failure}")
    response = _response(answer)
    try:
        _check_patch(webhook, response)
    except CallFailed as error:
        raise CallFailed(f"received invalid webhook response: {error}") from None
    warnings = tuple(str(text) for text in response.get("warnings") or ())
    if response.get("allowed") is not True:
        return WebhookVerdict(
            warnings=warnings, refusal=_refusal(webhook, response.get("status") or {})
        )
    if not response.get("patch"):
        return WebhookVerdict(warnings=warnings)
    return WebhookVerdict(patch=_operations(response), warnings=warnings)


def _response(answer: WebhookReply) -> Mapping[str, Any]:
    body = answer.body
    response = body.get("response") if isinstance(body, Mapping) else None
    why = ""
    if not isinstance(body, Mapping) or not isinstance(response, Mapping):
        why = "webhook response was absent"
    elif response.get("uid", "") != answer.uid:
        why = f'expected response.uid="{answer.uid}", got "{response.get("uid", "")}"'
    if why or not isinstance(response, Mapping):
        raise CallFailed(f"received invalid webhook response: {why}")
    for name, kind in _TYPES.items():
        if response.get(name) is not None and not isinstance(response[name], kind):
            raise CallFailed(f"failed to call webhook: response.{name} is of another type")
    if not _is_status(response.get("status") or {}):
        raise CallFailed("failed to call webhook: response.status is no Status")
    return response


def _is_status(status: Mapping[str, Any]) -> bool:
    """Return whether all fields that a denial copies from `status` have the right type."""
    details = status.get("details") or {}
    if not isinstance(details, Mapping):
        return False
    causes = details.get("causes") or []
    seconds = details.get("retryAfterSeconds") or 0
    listed = isinstance(causes, list) and all(isinstance(cause, Mapping) for cause in causes)
    return (
        listed
        and all(
            isinstance(value, str)
            for of in (details, *causes)
            for name, value in of.items()
            if name in _TEXTS
        )
        and isinstance(seconds, int)
    )


def _check_patch(webhook: Webhook, response: Mapping[str, Any]) -> None:
    patch, kind = response.get("patch"), response.get("patchType")
    if not webhook.mutating:
        if patch:
            raise CallFailed("validating webhook may not return response.patch")
        if kind is not None:
            raise CallFailed("validating webhook may not return response.patchType")
    elif patch and kind is None:
        raise CallFailed("webhook returned response.patch but not response.patchType")
    elif kind is not None and not patch:
        raise CallFailed("webhook returned response.patchType but not response.patch")
    elif kind == "":
        raise CallFailed('webhook returned invalid response.patchType of ""')


def _operations(response: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    try:
        operations = json.loads(base64.b64decode(response["patch"], validate=True))
    except (ValueError, TypeError, binascii.Error) as error:
        why = f"received undecodable patch in webhook response: {error}"
        raise CallFailed(why) from None
    if not isinstance(operations, list):
        found = _GO_TYPES.get(type(operations), "number")
        why = f"json: cannot unmarshal {found} into Go value of type jsonpatch.Patch"
        raise CallFailed(f"received undecodable patch in webhook response: {why}")
    if not all(isinstance(operation, Mapping) for operation in operations):
        raise CallFailed("received undecodable patch in webhook response: an operation is no map")
    if operations and response["patchType"] != "JSONPatch":
        raise CallFailed(f'unsupported patch type "{response["patchType"]}"')
    return operations


def _refusal(webhook: Webhook, status: Mapping[str, Any]) -> ApiError:
    """Source: the server's ToStatusErr: a code below 400 becomes 400."""
    message = f'admission webhook "{webhook.name}" denied the request'
    why = str(status.get("message") or status.get("reason") or "")
    code = status.get("code") or 0
    code = code if isinstance(code, int) and code >= _REFUSAL_MIN else _REFUSAL_MIN
    return denial(status, f"{message}: {why}" if why else f"{message} without explanation", code)


def internal(why: str) -> InternalError:
    """A failure of the server's own, as apimachinery words it."""
    causes = (Cause("", "", why),)
    return InternalError(f"Internal error occurred: {why}", StatusDetails(causes=causes))


def call_failed(webhook: Webhook, error: CallFailed) -> InternalError:
    return internal(f'failed calling webhook "{webhook.name}": {error}')


def no_dry_runs(webhook: Webhook) -> BadRequest:
    return BadRequest(f'admission webhook "{webhook.name}" does not support dry run')


def patched(webhook: Webhook, obj: Obj | None, patch: Sequence[Mapping[str, Any]]) -> Obj:
    """`obj` after a webhook's patch. Raises InternalError where it does not fit, as the server."""
    if obj is None:
        raise internal(
            f'admission webhook "{webhook.name}" attempted to modify the object, which is not'
            " supported for this operation"
        )
    made: Any = obj
    for operation in patch:
        try:
            made = json_patch(made, [operation])
        except (BadRequest, InvalidObject, TooLarge) as error:
            raise internal(_misfit(made, operation, error)) from None
    if not isinstance(made, Mapping) or not isinstance(made.get("metadata"), Mapping):
        raise internal("the patched object is no object with metadata")
    if any(made.get(name) != obj.get(name) for name in ("apiVersion", "kind")):
        group, version = split_api_version(str(made.get("apiVersion")))
        shown = f"({version}.{made.get('kind')}) to ({group or 'core'}.{obj['kind']})"
        raise Unreasoned(f"converting {shown}: unknown conversion")
    return made


def _misfit(obj: Any, operation: Mapping[str, Any], error: ApiError) -> str:
    """Return why an operation cannot be applied, in the words of kube-apiserver's library."""
    op, path, start = (str(operation.get(name, "")) for name in ("op", "path", "from"))
    if not isinstance(error, PatchDoesNotApply):
        return error.message
    if "doc is missing path" not in error.why:
        return error.why
    if op in ("move", "copy") and not leads_to(obj, start.rpartition("/")[0]):
        return f"{op} operation does not apply: doc is missing from path: {start}: missing value"
    if op == "remove" and leads_to(obj, path.rpartition("/")[0]):
        key = pointer_tokens(path)[-1]
        why = f"Unable to remove nonexistent key: {key}: missing value"
        return f"error in remove for path: '{path}': {why}"
    shown = path if op == "replace" else f'"{path}"'
    return f"{op} operation does not apply: doc is missing path: {shown}: missing value"

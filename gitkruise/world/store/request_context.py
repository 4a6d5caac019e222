"""Context of one request in the model cluster: its kind, its options, the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gitkruise.admission.conversion.registry import convert_into
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import APPLY_PATCH, ApiRequest
from gitkruise.wire.schema.structural import with_defaults
from gitkruise.world.store.api_errors import bad_options, not_found
from gitkruise.world.store.names import new_uid
from gitkruise.world.store.store import ObjectStore
from gitkruise.world.store.webhook_rounds import Reviews

_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_OPTIONS: Final = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_MANAGER_MAX: Final = 128  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The query parameters of a write, checked."""

    dry_run: bool = False
    manager: str = ""
    force: bool = False
    field_validation: str = "Warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """`kind` is the kind in the version of the request; `warnings` collects those of the reply."""

    state: ObjectStore
    kind: Kind
    request: ApiRequest
    now: datetime
    user: str
    options: WriteOptions = field(default_factory=WriteOptions)
    warnings: list[str] = field(default_factory=list)
    reviews: Reviews | None = None  # None: no webhook is asked
    patched: bool = False  # webhooks have had their say about what is written

    @property
    def ticket(self) -> str:
        return self.reviews.ticket if self.reviews is not None else ""

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def subresource(self) -> str:
        return self.request.subresource

    def key(self, name: str = "") -> ObjectKey:
        namespace = self.request.namespace if self.kind.namespaced else ""
        return ObjectKey(*self.kind.home, namespace, name or self.request.name)

    def new_uid(self) -> str:
        """The uid of the object that is created."""
        return new_uid(self.state, dry_run=self.options.dry_run, ticket=self.ticket)

    def stored(self) -> Obj:
        """The object named by the request, in storage form. Raises NotFound."""
        found = self.state.get(self.key())
        if found is None:
            raise not_found(self.kind, self.request.name)
        return found

    def shown(self, obj: Obj) -> Obj:
        """A stored object in the version the request speaks."""
        return shown_as(self.kind, obj) if self.kind.moves else obj

    def to_storage(self, obj: Obj) -> Obj:
        kind = self.kind
        return convert_into(obj, kind.home.group, kind.storage_version) if kind.moves else obj


def shown_as(kind: Kind, obj: Obj) -> Obj:
    """A stored object in the version of `kind`; of a CRD with the defaults that came since."""
    found = convert_into(obj, kind.group, kind.version)
    if not (kind.crd and kind.schema.fills):
        return found
    filled: Obj = with_defaults(kind.schema, found)
    return filled


_PLAIN: Final = WriteOptions(manager="unknown")


def flag(params: Mapping[str, str], name: str) -> bool:
    """A boolean query parameter as apimachinery reads it: anything but no, 0 and false is true."""
    return params.get(name, "false").lower() not in ("false", "0", "")


def read_options(request: ApiRequest) -> WriteOptions:
    """The options of a create, update or patch. Raises InvalidObject as the server does (422)."""
    what, params = _OPTIONS[request.verb], request.params
    applying = request.content_type == APPLY_PATCH
    if not params and not applying:
        return _PLAIN
    validation = params.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        words = ", ".join(f'"{word}"' for word in _VALIDATIONS)
        why = f'Unsupported value: "{validation}": supported values: {words}'
        raise bad_options(what, "fieldValidation", "FieldValueNotSupported", why)
    manager = params.get("fieldManager", "")
    _check_manager(what, manager)
    if request.verb == "patch" and applying and not manager:
        why = "Required value: is required for apply patch"
        raise bad_options(what, "fieldManager", "FieldValueRequired", why)
    force = flag(params, "force")
    if force and not applying:
        why = "Forbidden: may not be specified for non-apply patch"
        raise bad_options(what, "force", "FieldValueForbidden", why)
    return WriteOptions(
        dry_run=read_dry_run(what, params),
        manager=manager or "unknown",
        force=force,
        field_validation=validation or "Warn",
    )


def _check_manager(what: str, manager: str) -> None:
    if len(manager.encode()) > _MANAGER_MAX:
        why = f"Too long: may not be more than {_MANAGER_MAX} bytes"
        raise bad_options(what, "fieldManager", "FieldValueTooLong", why)
    if not manager.isprintable():
        why = f'Invalid value: "{manager}": should not contain unprintable characters'
        raise bad_options(what, "fieldManager", "FieldValueInvalid", why)


def read_dry_run(what: str, params: Mapping[str, Any]) -> bool:
    """`dryRun` of the query or of DeleteOptions; only All is known."""
    given = params.get("dryRun")
    values = given.split(",") if isinstance(given, str) else list(given or ())
    if any(value != "All" for value in values):
        shown = " ".join(f'"{value}"' for value in values)
        why = f'Unsupported value: [{shown}]: supported values: "All"'
        raise bad_options(what, "dryRun", "FieldValueNotSupported", why)
    return bool(values)

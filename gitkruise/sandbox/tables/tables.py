"""Tables and metadata-only forms: what `kubectl get` asks the server to make of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from gitkruise.admission.conversion.registry import convert_into
from gitkruise.errors import BadRequest
from gitkruise.sandbox.http.negotiation import ResponseForm
from gitkruise.sandbox.tables.cells import age, crd_cell
from gitkruise.sandbox.tables.columns import NAME, Cell, TableColumn, printer_of
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import WatchEvent

INCLUDES: Final = ("None", "Metadata", "Object", "")
_AGE: Final = TableColumn("Age", "string", description="Time since the object was created.")


class Shaper:
    """Turns replies and watch events into Tables or PartialObjectMetadata at the instant of `now`.

    Columns and cells of built-in kinds are kube-apiserver's; those of other kinds come from
    their CRD's additionalPrinterColumns, or are Name and Age.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    def shape(self, body: Obj, kind: Kind, form: ResponseForm, *, include: str) -> Obj:
        """`body` in the form asked for; a Status or another kind's object stays what it is."""
        whole = body.get("kind") == kind.list_kind or "items" in body
        if not whole and body.get("kind") != kind.kind:
            return body
        items: Sequence[Obj] = body["items"] if whole else [body]
        if form.shape == "Table":
            meta = body["metadata"] if whole else _version_of(body)
            return self._table(items, meta, kind, form, include=include, columns=True)
        if whole:
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": f"meta.k8s.io/{form.version}",
                "metadata": body["metadata"],
                "items": [_partial(item, form) for item in items],
            }
        return _partial(body, form)

    def events(
        self,
        events: Sequence[WatchEvent],
        kind: Kind,
        form: ResponseForm,
        *,
        include: str,
        columns: bool,
    ) -> list[WatchEvent]:
        """Watch events whose objects are in that form; a Table names its columns once a watch."""
        out: list[WatchEvent] = []
        for event in events:
            if event.type == "ERROR":
                out.append(event)
            elif form.shape == "Table":
                meta = _version_of(event.object)
                rows = [] if event.type == "BOOKMARK" else [event.object]
                if event.type == "BOOKMARK":
                    meta = event.object["metadata"]
                table = self._table(
                    rows, meta, kind, form, include=include, columns=columns and not out
                )
                out.append(WatchEvent(type=event.type, object=table))
            else:
                out.append(WatchEvent(type=event.type, object=_partial(event.object, form)))
        return out

    def _table(
        self,
        items: Sequence[Obj],
        meta: Mapping[str, Any],
        kind: Kind,
        form: ResponseForm,
        *,
        include: str,
        columns: bool,
    ) -> Obj:
        if include not in INCLUDES:
            raise BadRequest(f'includeObject: Unsupported value: "{include}"')
        described, row = _printer(kind)
        now = self._now()
        rows = [{"cells": row(item, now), **_inside(item, kind, include, form)} for item in items]
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{form.version}",
            "metadata": meta,
            "columnDefinitions": [column.as_obj() for column in described] if columns else None,
            "rows": rows,
        }


def _printer(kind: Kind) -> tuple[Sequence[TableColumn], Callable[[Obj, datetime], list[Cell]]]:
    builtin = printer_of(kind.group, kind.kind)
    if builtin is not None and not kind.moves:
        return builtin
    if builtin is not None:
        group, stored, cells = kind.home.group, kind.storage_version, builtin[1]
        named = {"apiVersion": kind.api_version, "kind": kind.kind}  # left out in a list
        return builtin[0], lambda obj, now: cells(
            convert_into({**named, **obj}, group, stored), now
        )
    if not kind.columns:
        return (NAME, _AGE), _name_and_age
    described = [
        NAME,
        *(TableColumn(c.name, c.type, c.priority, c.format, c.description) for c in kind.columns),
    ]
    columns = kind.columns

    def row(obj: Obj, now: datetime) -> list[Cell]:
        cells = [crd_cell(obj, c.json_path, c.type, now) for c in columns]
        return [obj["metadata"].get("name"), *cells]

    return described, row


def _name_and_age(obj: Obj, now: datetime) -> list[Cell]:
    return [obj["metadata"].get("name"), age(obj, now)]


def _version_of(obj: Obj) -> dict[str, Any]:
    return {"resourceVersion": obj["metadata"].get("resourceVersion", "")}


def _inside(item: Obj, kind: Kind, include: str, form: ResponseForm) -> dict[str, Any]:
    """The object of a row. Items of a list name no kind; `kubectl get --sort-by` reads it here."""
    if include == "None":
        return {"object": None}
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **item}
    return {"object": whole if include == "Object" else _partial(item, form)}


def _partial(obj: Obj, form: ResponseForm) -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": obj["metadata"],
    }

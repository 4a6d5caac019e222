"""gitkruise explain: explain an error code, or a field of the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from gitkruise.cli.console.command import ExitCodesCommand, output_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import API_VERSION, say, say_json
from gitkruise.cli.console.style import Style
from gitkruise.errors import Finding, UsageProblem

_CODE: Final = re.compile(r"(?i)(?:GK)?(\d{4})")
_KINDS: Final = ("GitSource", "Unit", "Sink", "Receiver")


@click.command(cls=ExitCodesCommand)
@click.argument("subject", metavar="CODE|FIELD")
@output_option
def explain(subject: str, output: str) -> None:
    """Explain an error code, or a field of GitSource, Unit, Sink and Receiver.

    \b
    Examples:
      gitkruise explain GK3204
      gitkruise explain unit.spec.drift
      gitkruise explain gitsource -o json
    """
    style = Style.of(read_environment())
    found = _CODE.fullmatch(subject)
    obj = _code(f"GK{found[1]}") if found else _field(subject)
    if output == "json":
        say_json(obj, style)
    elif found:
        say(_code_lines(obj, style), style)
    else:
        say(_field_lines(obj, style), style)


def _code(code: str) -> dict[str, Any]:
    """Return an entry of docs/codes.md. Raises UsageProblem GK7060."""
    from gitkruise.kube.system.package_data import data_dir  # noqa: PLC0415  imports the catalogue

    text = (data_dir("docs") / "codes.md").read_text()
    entries = dict(re.findall(r"(?ms)^### (GK\d{4})\n(.*?)(?=^###? |\Z)", text))
    if code not in entries:
        near = ", ".join(known for known in sorted(entries) if known[:4] == code[:4])
        notes = (("near", near) if near else ("next", "copy the code from a message of gitkruise"),)
        raise UsageProblem(Finding(code="GK7060", message=f"{code}: unknown code", notes=notes))
    body, _, next_ = entries[code].strip().partition("*Next:*")
    return {
        "apiVersion": API_VERSION,
        "kind": "CodeExplanation",
        "code": code,
        "text": _plain(body),
        "next": _plain(next_),
    }


def _plain(markdown: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown).strip()


def _code_lines(obj: Mapping[str, Any], style: Style) -> Iterator[str]:
    yield style.paint(obj["code"], "bold")
    yield from _folded(obj["text"], style)
    if obj["next"]:
        yield ""
        yield from _folded(f"Next: {obj['next']}", style)


def _folded(text: str, style: Style) -> Iterator[str]:
    """Reflow each paragraph to the terminal; the lines of a table or a list stay as they are."""
    import textwrap  # noqa: PLC0415  only to fold sentences

    width = min(style.width, 100)
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ""
        if paragraph.startswith(("|", "- ", " ")):
            yield from paragraph.splitlines()
        else:
            yield from textwrap.wrap(
                paragraph, width, break_long_words=False, break_on_hyphens=False
            )


def _field(words: str) -> dict[str, Any]:
    """Return a field by its path, with the fields below it. Raises UsageProblem GK7060."""
    head, *path = words.split(".")
    kind = next((k for k in _KINDS if k.lower() == head.lower().removesuffix("s")), "")
    if not kind:
        message = f'"{words}": neither a code nor a field of {", ".join(_KINDS)}'
        raise UsageProblem(Finding(code="GK7060", message=message))
    from gitkruise.kube.system.package_data import read_json  # noqa: PLC0415  imports the catalogue

    schema = read_json("json", f"{kind}-gitkruise.io-v1alpha1.json")
    node, walked = _resolved(schema, schema), [kind]
    for name in path:
        below = _below(node, schema)
        found = next((known for known in below if known.lower() == name.lower()), None)
        if found is None:
            import difflib  # noqa: PLC0415  only for a mistyped word

            near = difflib.get_close_matches(name, below, 3) or sorted(below)
            notes = (("there are", ", ".join(near) or "no fields"),)
            message = f'{".".join(walked)} has no field "{name}"'
            raise UsageProblem(Finding(code="GK7060", message=message, notes=notes))
        node = _resolved(below[found], schema)
        walked.append(found)
    return _field_obj(".".join(walked), node, schema)


def _resolved(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve the references of a node; its own description and default win."""
    for _ in range(8):
        ref = node.get("$ref") or next(
            (o["$ref"] for o in node.get("anyOf", ()) if isinstance(o, Mapping) and "$ref" in o), ""
        )
        if not ref:
            return node
        target: Any = schema
        for part in ref.removeprefix("#/").split("/"):
            target = target[part]
        own = {k: v for k, v in node.items() if k in {"description", "default"}}
        node = {**target, **own}
    return node


def _below(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    items = node.get("items")
    inner = _resolved(items, schema) if isinstance(items, Mapping) else node
    found: Mapping[str, Any] = inner.get("properties") or {}
    return found


def _field_obj(name: str, node: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    fields = [
        {"name": child, **_described(_resolved(inner, schema))}
        for child, inner in _below(node, schema).items()
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "FieldExplanation",
        "field": name,
        **_described(node),
        "fields": fields,
    }


def _described(node: Mapping[str, Any]) -> dict[str, Any]:
    kinds = node.get("enum") or node.get("type") or "one of several"
    shown = " | ".join(map(str, kinds)) if isinstance(kinds, list) else str(kinds)
    out: dict[str, Any] = {"type": shown, "description": node.get("description", "")}
    if "default" in node and node["default"] not in (None, {}, []):
        out["default"] = node["default"]
    return out


def _field_lines(obj: Mapping[str, Any], style: Style) -> Iterator[str]:
    from gitkruise.cli.console.tables import Column, fit_table  # noqa: PLC0415

    default = f"   default {obj['default']}" if "default" in obj else ""
    yield f"{style.paint(obj['field'], 'bold')}   {obj['type']}{default}"
    yield from _folded(obj["description"], style)
    if not obj["fields"]:
        return
    yield ""
    heads = (
        Column(name="FIELD"),
        Column(name="TYPE", least=10),
        Column(name="DEFAULT", drop=1),
        Column(name="", prose=True, least=20),
    )
    rows = [
        (f["name"], f["type"], str(f.get("default", "")), f["description"]) for f in obj["fields"]
    ]
    yield from fit_table(heads, rows, style.width)

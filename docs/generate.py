# ruff: noqa: INP001  a script, not a package
"""Writes the reference pages that follow from the code: the command line and the configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from gitkruise.cli.root import ALIASES, COMMANDS, cli
from gitkruise.model.gitops.config import DURATIONS, LATER, SPECS

DOCS: Final = Path(__file__).parent
SCHEMAS: Final = DOCS.parent / "schemas" / "json"
MADE: Final = "<!-- made by docs/generate.py: make docs -->"

EXIT_CODES: Final = (
    ("0", "success; the check passed, or the rollout reached the requested state (Held included)"),
    ("1", "a check failed: `plan --exit-code`, `validate`, `status --fail-on`, …"),
    ("2", "wrong usage"),
    ("3", "invalid manifests; nothing was changed"),
    ("4", "git: unreachable, rejected, history rewritten"),
    ("5", "the cluster: unreachable, access denied, a kind is missing"),
    ("6", "timed out"),
    ("70", "an unexpected error (GK9000); a report is kept"),
    ("130", "interrupted"),
)  # fmt: skip


def cli_page() -> str:
    """docs/cli.md: every command with its usage, text and options."""
    parts = ["# Command line", MADE, _PREFACE, *_command_parts(cli, ("gitkruise",))]
    aliases = ", ".join(f"`{alias}` is `{name}`" for alias, name in ALIASES.items())
    rows = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES)
    parts += [f"Aliases: {aliases}.", "## Exit codes", f"| Code | Meaning |\n|---|---|\n{rows}"]
    return "\n\n".join(parts) + "\n"


_PREFACE: Final = (
    "Results go to standard output, progress and errors to standard error; every command that\n"
    "reads takes `-o json`. `kubectl gitkruise …` is the same program."
)


def _command_parts(command: click.Command, words: tuple[str, ...]) -> Iterator[str]:
    context = click.Context(
        command,
        info_name=" ".join(words),
        max_content_width=96,
        help_option_names=["-h", "--help"],  # click keeps the option it made first
    )
    context.terminal_width = 96
    yield f"{'#' * min(len(words) + 1, 4)} {' '.join(words)}"
    yield f"```text\n{command.get_help(context).rstrip()}\n```"
    names = list(COMMANDS) if command is cli else list(getattr(command, "commands", {}))
    for name in names:
        assert isinstance(command, click.Group)
        child = command.get_command(context, name)
        assert child is not None
        yield from _command_parts(child, (*words, name))


def configuration_page() -> str:
    """docs/configuration.md: every field of every document, from the published schemas."""
    parts = ["# Configuration", MADE, (DOCS / "configuration.in.md").read_text().strip()]
    for kind in SPECS:
        schema = json.loads((SCHEMAS / f"{kind}-gitkruise.io-v1alpha1.json").read_text())
        spec = _resolved(schema["properties"]["spec"], schema)
        rows = [
            f"| `{name}` | {shown} | {default} | {text} |"
            for name, shown, default, text in _rows(spec, schema, kind, ())
        ]
        head = "| Field of `spec` | Type | Default | |\n|---|---|---|---|\n"
        parts.append(f"## {kind}")
        parts.append(head + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _rows(
    node: Mapping[str, Any], root: Mapping[str, Any], kind: str, at: tuple[str, ...]
) -> Iterator[tuple[str, str, str, str]]:
    required = set(node.get("required", ()))
    for name, raw in node.get("properties", {}).items():
        child, path = _resolved(raw, root), (*at, name)
        if path in LATER[kind]:
            yield ".".join(path), _type(child), "", "**refused**: not acted on by this version"
            continue
        text = child.get("description", "") + (" **Required.**" if name in required else "")
        if path in DURATIONS[kind]:
            text = f"{text} (duration)".strip()
        inner = _resolved(child.get("items", {}), root) if child.get("type") == "array" else child
        if inner.get("properties"):
            yield ".".join(path), _type(child), "", text
            yield from _rows(inner, root, kind, path)
        else:
            default = f"`{json.dumps(child['default'])}`" if "default" in child else ""
            yield ".".join(path), _type(child), default, text


def _resolved(node: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A node behind its `$ref`, `allOf` and `anyOf … null`."""
    for word in ("anyOf", "oneOf"):
        if word in node:
            kept = [n for n in node[word] if n.get("type") not in {"null", "boolean"}]
            if len(kept) == 1:
                return {**_resolved(kept[0], root), **{k: v for k, v in node.items() if k != word}}
    ref = node.get("$ref")
    if ref is None:
        return node
    found: Any = root
    for part in ref.removeprefix("#/").split("/"):
        found = found[part]
    return {**_resolved(found, root), **{k: v for k, v in node.items() if k != "$ref"}}


def _type(node: Mapping[str, Any]) -> str:
    if "enum" in node:
        return " \\| ".join(f"`{value}`" for value in node["enum"])
    if node.get("type") == "array":
        return "list"
    return str(node.get("type", "any"))


PAGES: Final = {"cli.md": cli_page, "configuration.md": configuration_page}

if __name__ == "__main__":
    for file, page in PAGES.items():
        (DOCS / file).write_text(page())

"""`${NAME}` in manifests replaced by values, strictly: what is not defined is an error."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gitkruise.errors import Finding, Severity, SourcePlace
from gitkruise.git.parsing.yaml_scalars import BadScalar, ambiguity, resolve, shown
from gitkruise.model.gitops.document import Document, FieldPath, Position, place_at
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.secret_names import HIDDEN

# Written by people: `Disabled` leaves an object alone. The second is Flux's name for it.
OPT_OUT: Final = ("gitkruise.io/substitute", "kustomize.toolkit.fluxcd.io/substitute")
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ADDED_MAX: Final = 1 << 20  # characters that values may bring into one object
_IDENTITY: Final = frozenset[FieldPath]({("metadata", "name"), ("metadata", "namespace")})
_FINDINGS_MAX: Final = 50
_LINES_SEARCHED: Final = 2_000
# `$${` is an escaped `${`; a name with an optional default; any other `${` is a mistake.
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::=([^{}$]*))?\}|\$\{")
_SHOWN: Final = re.compile(r"\$\{[^{}\n]{0,36}\}?")
_BEFORE: Final = re.compile(r"(?:[&!]\S*\s+)*")  # anchors and tags in front of a value


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Value of a name; the text of a `secret` one goes into Secrets alone."""

    text: str = field(repr=False)
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """All names. `elsewhere` says where more are that cannot be asked now ("" when none are), and
    `why` they cannot. With `apart` no object of a cluster is compared with what they are for."""

    known: Mapping[str, Value]
    strict: bool = True
    elsewhere: str = ""
    why: str = ""
    apart: bool = False


def substitute(
    document: Document, values: Values, *, leave: frozenset[str] = frozenset()
) -> tuple[Document, list[Finding]]:
    """Return `document` with every `${NAME}` of its keys and texts replaced, and the findings.

    `${NAME:=default}` takes the default when NAME is not defined or empty; `$${` becomes `${`.
    Values are never read as YAML structure. An unquoted word is read again after replacement, as
    if the value were written there (`replicas: ${N}` is a number); a quoted one stays text. Fields
    named by `leave` are not looked into. An undefined name is GK1401 when strict, else it stays as
    it is written; it never becomes an empty text. One whose value is elsewhere stays, too: it is
    `unread`. The document itself comes back when nothing is to be replaced.
    """
    obj = document.obj
    if not isinstance(obj, dict) or not _mentions(obj) or _opted_out(obj):
        return document, []
    run = _Pass(document, values)
    kept = {key: obj[key] for key in leave if key in obj}
    made = run.value({k: v for k, v in obj.items() if k not in kept}, ())
    in_order = {key: kept[key] for key in obj if key in kept}
    unread = run.unread if values.apart else run.unread - _IDENTITY
    obj = {**made, **in_order}
    return dataclasses.replace(document, obj=obj, unread=frozenset(unread)), run.findings


def _mentions(value: Any) -> bool:
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, dict):
        return any("${" in key or _mentions(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_mentions, value))


def _opted_out(obj: Mapping[str, Any]) -> bool:
    words = (get(obj, "metadata", "annotations", name) for name in OPT_OUT)
    return any(isinstance(word, str) and word.lower() == "disabled" for word in words)


class _Pass:
    """One walk over one document."""

    def __init__(self, document: Document, values: Values) -> None:
        self.findings: list[Finding] = []
        self.unread = set[FieldPath]()
        self._document, self._values = document, values
        self._secret = document.obj.get("kind") == "Secret"
        self._private = self._secret or document.private
        self._added = 0

    def value(self, value: Any, path: FieldPath) -> Any:
        if isinstance(value, str):
            return self._scalar(value, path) if "${" in value else value
        if isinstance(value, list):
            return [self.value(item, (*path, number)) for number, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        made: dict[str, Any] = {}
        for key, item in value.items():
            name = self._replaced(key, path) if "${" in key else key
            if name in made or (name != key and name in value):
                named = HIDDEN if self._private else shown(name)
                message = f"two keys of one mapping are {named} after replacement"
                self._report("GK1404", message, (*path, key), key, (("next", "keep one"),))
            made[name] = self.value(item, (*path, key))
        return made

    def _scalar(self, text: str, path: FieldPath) -> Any:
        replaced = self._replaced(text, path)
        if replaced in {"", text}:
            return replaced
        try:
            meant = resolve(replaced)
        except BadScalar as error:
            if self._plain(path):
                self._report(error.code, "a number out of range after replacement", path, text, ())
            return replaced
        if isinstance(meant, str) or not self._plain(path):
            return replaced
        if ambiguity(replaced):
            message = f"the value of {_first(text)} is read as {str(meant).lower()}"
            notes = (("next", "quote it here if you mean text"),)
            if not self._hides(path):
                self._report("GK1013", message, path, text, notes, severity=Severity.WARNING)
        return meant

    def _plain(self, path: FieldPath) -> bool:
        """Return whether the value is written without quotes; True where that is unknown."""
        written = self._document.written(path)
        before = _BEFORE.match(written)
        assert before is not None
        return "!!str" not in before[0] and written[before.end() :][:1] not in {'"', "'", "|", ">"}

    def _replaced(self, text: str, path: FieldPath) -> str:
        def replacement(found: re.Match[str]) -> str:
            if found[0] == "$${":
                return "${"
            new = self._meaning(found, path)
            self._added += len(new)
            return new if self._added <= ADDED_MAX else ""

        before = self._added
        replaced = _REFERENCE.sub(replacement, text)
        if self._added > ADDED_MAX >= before:
            message = f"beyond a limit: values bring {ADDED_MAX:,} characters into one object"
            self._report("GK9001", message, path, text, (("next", "use smaller values"),))
        return replaced

    def _meaning(self, found: re.Match[str], path: FieldPath) -> str:
        name, default = found[1], found[2]
        if name is None:
            return self._not_a_form(found, path)
        value = self._values.known.get(name)
        if value is not None and value.secret and not self._secret:
            self._report(
                "GK1403",
                f"${{{name}}} comes from a Secret and goes into a {self._document.obj.get('kind')}",
                path,
                found[0],
                _SECRET_NOTES,
            )
            return found[0]
        if value is not None and (value.text or default is None):
            return value.text
        if default is not None and not self._values.elsewhere:
            return default
        return self._undefined(name, found[0], path)

    def _hides(self, path: FieldPath) -> bool:
        """Return whether the text at `path` may be a secret: its reference alone is shown."""
        return self._private or self._document.may_be_secret(path)

    def _not_a_form(self, found: re.Match[str], path: FieldPath) -> str:
        if self._values.strict:
            after = _SHOWN.match(found.string, found.start())
            what = after[0] if after and not self._hides(path) else found[0]
            message = f"{shown(what)} is neither ${{NAME}} nor ${{NAME:=default}}"
            self._report("GK1402", message, path, what, (("next", f"to keep it, write ${what}"),))
        return found[0]

    def _undefined(self, name: str, found: str, path: FieldPath) -> str:
        written = f"${{{name}}}" if self._hides(path) else found  # without its default
        if self._values.elsewhere:
            self.unread.add(path)
            message = f"the value of ${{{name}}} may come from {self._values.elsewhere}"
            notes = (("why", self._values.why), ("shown", f"{written} as it is written"))
            self._report("GK1405", message, path, written, notes, severity=Severity.WARNING)
        elif self._values.strict:
            from difflib import get_close_matches  # noqa: PLC0415  only on this path

            near = get_close_matches(name, self._values.known, 1)
            hint = (("did you mean", f"${{{near[0]}}}"),) if near else ()
            defined = ", ".join(sorted(self._values.known)[:20]) or "none"
            notes = (
                *hint,
                ("defined", defined),
                (
                    "next",
                    f"define {name} in render.substitute, or write ${written} to keep it as it is",
                ),
            )
            self._report("GK1401", f"${{{name}}} is not defined", path, written, notes)
        return found

    def _report(
        self, code: str, message: str, path: FieldPath, written: str,
        notes: tuple[tuple[str, str], ...], severity: Severity = Severity.ERROR,
    ) -> None:  # fmt: skip
        if len(self.findings) < _FINDINGS_MAX:
            place = _position(self._document, path, written, hidden=self._hides(path))
            self.findings.append(
                Finding(code=code, message=message, places=(place,), notes=notes, severity=severity)
            )


_SECRET_NOTES: Final = (
    ("why", "whatever is not in a Secret is shown in plans, records and to everybody who may read"),
    ("next", "use it in a Secret, or move it to a ConfigMap if it is none"),
)


def _first(text: str) -> str:
    found = _SHOWN.search(text)
    return found[0] if found else "${"


def _position(document: Document, path: FieldPath, written: str, *, hidden: bool) -> SourcePlace:
    """Position of `written`: at the value of `path`, or further down in a text of many lines."""
    place = document.place(path)
    wanted = written if "\n" not in written else _first(written)
    unescaped = re.compile(rf"(?<!\$){re.escape(wanted)}")
    end = min(len(document.lines), max(place.line, 1) - 1 + _LINES_SEARCHED)
    for number in range(max(place.line, 1), end + 1):
        start = place.column - 1 if number == place.line and place.column else 0
        found = unescaped.search(document.lines[number - 1], start)
        if found is not None:
            position = Position(number, found.start() + 1, len(wanted))
            return place_at(place.file, document.lines, position, label="here", hidden=hidden)
    return place

"""Secrets of known text in every place, encoding and spelling a manifest can have them in."""

from __future__ import annotations

import base64
import itertools
import json
import quopri
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

WINDOW: Final = 8  # so many characters of a secret in a row are a hit

Spell: TypeAlias = Callable[[str], str]

ENCODINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "plain": lambda text: text,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64url": lambda text: base64.urlsafe_b64encode(b"\xfb\xff" + text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "url": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "json": lambda text: "".join(f"\\u{ord(char):04x}" for char in text),
    "quoted-printable": lambda text: quopri.encodestring(f"é={text}".encode()).decode().strip(),
    "reversed": lambda text: text[::-1],
    "digits": lambda text: str(int.from_bytes(text.encode(), "big") % 10**40 + 7 * 10**40 + 10**39),
}

# How a value is written behind `key: `; the key is two blanks in.
SPELLINGS: Final[Mapping[str, Spell]] = {
    "plain": lambda v: v,
    "alias": lambda v: f"*{v}",
    "tag": lambda v: f"!{v}",
    "verbatim tag": lambda v: f"!<tag:{v}> x",
    "int tag": lambda v: f"!!int {v}x",
    "float tag": lambda v: f"!!float {v}x",
    "bool tag": lambda v: f"!!bool {v}",
    "null tag": lambda v: f"!!null {v}",
    "binary tag": lambda v: f"!!binary {v}",
    "anchor twice": lambda v: f"&{v} x\n  other: &{v} y",
    "anchor of itself": lambda v: f"&{v} [*{v}]",
    "anchored": lambda v: f"&a {v}\n  other: *a\n  third: *{v}",
    "percent": lambda v: f"%{v}",
    "at": lambda v: f"@{v}",
    "backtick": lambda v: f"`{v}",
    "open double quote": lambda v: f'"{v}',
    "open single quote": lambda v: f"'{v}",
    "unknown escape": lambda v: f'"{v[:4]}\\q{v}"',
    "half a character": lambda v: f'"\\ud800{v}"',
    "behind a quote": lambda v: f'"x" {v}',
    "open list": lambda v: f"[{v}",
    "open mapping": lambda v: f"{{{v}",
    "open entry": lambda v: f"{{{v}: ",
    "closing": lambda v: f"]{v}",
    "second colon": lambda v: f"x: {v}: y",
    "no space": lambda v: f"x\n  b:{v}",
    "behind a bar": lambda v: f"| {v}",
    "tab in a block": lambda v: f"\n\t{v}",
    "block and list": lambda v: f"|\n    {v}: x\n  - {v}",
    "folded": lambda v: f">\n    {v}\n {v}",
    "complex key": lambda v: f"x\n  ? [{v}]\n  : y",
    "list behind": lambda v: f"- {v}",
    "list below": lambda v: f"{v}\n- {v}",
    "twice": lambda v: f"{{{v}: 1, {v}: 2}}",
    "merge": lambda v: f"{{a: 1, <<: {v}}}",
    "merged over": lambda v: f"{{{v}: 1, <<: {{{v}: 2}}}}",
    "octal": lambda v: f"0o7{_octal(v)}",
    "old octal": lambda v: f"07{_octal(v)}8",
    "hexadecimal": lambda v: f"0x{v.encode().hex()}",
    "long number": lambda v: f"{_number(v)}",
    "key not text": lambda v: f"{{{_number(v)}: x}}",
    "infinite": lambda v: f"{_number(v)}e9999",
}


def _number(text: str) -> str:
    return text if text.isdigit() else str(int.from_bytes(text.encode(), "big"))


def _octal(text: str) -> str:
    return f"{int.from_bytes(text.encode(), 'big'):o}"


def spelled_out(value: str, window: int = WINDOW) -> frozenset[str]:
    """Every window of the value in every way that a spelling or an outlet may write it."""
    ways = [value, _number(value), _octal(value), value.encode().hex(), json.dumps(value)[1:-1]]
    ways += [urllib.parse.quote(value), repr(value)[1:-1]]
    ways += [base64.b64encode(b" " * shift + value.encode()).decode()[2:] for shift in range(3)]
    ways += [base64.b64encode(value.encode()).decode()]
    return frozenset(
        way[at : at + window] for way in ways for at in range(max(1, len(way) - window + 1))
    )


_META: Final = "metadata:\n  name: app\n"
_V1: Final = "apiVersion: v1\n"
_SECRET: Final = f"{_V1}kind: Secret\n{_META}"
_ITEM: Final = "- apiVersion: v1\n  kind: Secret\n  metadata: {name: forge}\n"
_PULL: Final = "kubernetes.io/dockerconfigjson"
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_POD: Final = (
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: app\nspec:\n  containers:\n  - name: web\n"
    "    image: web:v1\n    env:\n    - name: DB_PASSWORD\n      value: "
)

# Where a secret is written; @@ is its place, two blanks in or deeper.
PLACES: Final[Mapping[str, tuple[str, str]]] = {
    "Secret.data": ("s.yaml", f"apiVersion: v1\nkind: Secret\n{_META}data:\n  key: @@\n"),
    "Secret.stringData": ("s.yaml", f"apiVersion: v1\nkind: Secret\n{_META}stringData:\n  a: @@\n"),
    "kind below": ("s.yaml", f"stringData:\n  key: @@\napiVersion: v1\n{_META}kind: Secret\n"),
    "sops": ("s.yaml", f"apiVersion: v1\nkind: Cloak\n{_META}sops:\n  mac: x\nspec:\n  key: @@\n"),
    "generated": ("c.yaml", f"apiVersion: v1\nkind: ConfigMap\n{_META}data:\n  password: @@\n"),
    "variable": ("p.yaml", f"{_POD}@@\n"),
    "literals": ("kustomization.yaml", "secretGenerator:\n- name: app\n  literals: @@\n"),
    "pull secret": ("s.yaml", f"{_SECRET}type: {_PULL}\ndata:\n  .dockerconfigjson: @@\n"),
    "webhook token": ("s.yml", f"kind: 'Secret'\n{_V1}{_META}stringData: {{token: @@}}\n"),
    "forge token": ("l.yaml", f"{_V1}kind: List\nitems:\n{_ITEM}  stringData:\n    token: @@\n"),
    "last applied": ("s.yaml", f"{_SECRET}  annotations:\n    {_APPLIED}: @@\n"),
    "custom resource": ("d.yaml", f"apiVersion: db.io/v1\nkind: D\n{_META}spec:\n  password: @@\n"),
    "JSON": ("s.json", '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":@@}'),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Canary:
    """One secret as a file, and the texts that give it away."""

    name: str
    file: str
    text: str
    needles: frozenset[str]


def secret(seed: int) -> str:
    """The secret of a run."""
    return f"zq{seed % 10**6:06d}Wqkx{seed * 7919 % 10**6:06d}qz"


def needles(raw: str, window: int) -> frozenset[str]:
    """Every window of a secret in every encoding and spelling."""
    values = [raw, *(encode(raw) for encode in ENCODINGS.values())]
    parts = {part for value in values for part in spelled_out(value, window)}
    return frozenset(part for part in parts if len(part) == window)


def canaries(seed: int, place: str) -> Iterator[Canary]:
    """Every encoding and spelling in one place; the secrets themselves come from `seed`."""
    raw = secret(seed)
    file, template = PLACES[place]
    for encoding, spelling in itertools.product(ENCODINGS, SPELLINGS):
        value = ENCODINGS[encoding](raw)
        yield Canary(
            name=f"{place}, {encoding}, {spelling}",
            file=file,
            text=template.replace("@@", SPELLINGS[spelling](value)),
            needles=spelled_out(value) | spelled_out(raw),
        )

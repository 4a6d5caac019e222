"""Checks of a Sink's forge and of its messages, beyond the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from gitkruise.errors import Finding
from gitkruise.model.gitops.document import Document
from gitkruise.planner.notify.message_formats import template_problem
from gitkruise.wire.primitives.paths import get

if TYPE_CHECKING:
    from gitkruise.model.gitops.config import ForgeSink

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# Where each forge lets people ask for a branch to be merged.
_PAGES: Final[Mapping[str, str]] = {
    "github": "compare/{base}...{branch}?expand=1",
    "gitlab": "-/merge_requests/new?merge_request%5Bsource_branch%5D={branch}"
    "&merge_request%5Btarget_branch%5D={base}",
    "gitea": "compare/{base}...{branch}",
    "forgejo": "compare/{base}...{branch}",
}
_OWN: Final = frozenset({"gitea", "forgejo"})  # there is none that everybody means


def sendable(address: str) -> bool:
    """Return whether an address is https or local: tokens and messages must not be readable by
    others."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    safe = parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)
    return bool(host) and safe and port != 0 and not parts.username


def page_for(forge: ForgeSink, base: str, branch: str) -> str:
    """Return the address at which users open a pull request for `branch` into `base`."""
    root = (forge.url or f"https://{forge.type}.com").rstrip("/")
    names = {"base": quote(base, safe="/"), "branch": quote(branch, safe="/")}
    return f"{root}/{forge.repo}/{_PAGES[forge.type].format(**names)}"


def forge_findings(document: Document) -> Iterator[Finding]:
    """GK7029 for an invalid or unreachable forge."""
    spec = get(document.obj, "spec", "forge")
    if spec is None:
        return
    if not spec.get("url") and spec["type"] in _OWN:
        yield _bad(document, "type", f"a {spec['type']} has an address", "name it: forge.url")
    if spec.get("url") and not _plain(spec["url"]):
        words = "write https://HOST, with nothing behind it but where the forge is"
        yield _bad(document, "url", f"{spec['url']!r} is no address of a forge", words)
    if spec.get("deployment") and spec["type"] in _OWN:
        words = "take it out: commits have statuses"
        yield _bad(document, "deployment", f"a {spec['type']} shows no deployments", words)
    parts = spec["repo"].split("/")
    deep = len(parts) > 2 and spec["type"] != "gitlab"
    if len(parts) < 2 or deep or not all(_named(part) for part in parts):
        words = "write owner/name"
        yield _bad(document, "repo", f"{spec['repo']!r} is no repository", words)


def notify_findings(document: Document) -> Iterator[Finding]:
    """GK7068 for a template of messages that gives no JSON, or that nothing fills; GK7003 for a
    pattern that matches no unit."""
    for number, rule in enumerate(get(document.obj, "spec", "notify", default=())):
        template = rule.get("template", "")
        problem = template_problem(template) if template else ""
        if template and rule["type"] != "webhook":
            problem = f"{rule['type']} has a format of its own: only webhook takes a template"
        if problem:
            yield Finding(
                code="GK7068",
                message=f"spec.notify[{number}].template: {problem}",
                places=(document.place(("spec", "notify", number, "template")),),
                notes=(("next", 'write JSON, such as {"text": "${title}"}'),),
            )
        for index, pattern in enumerate(rule.get("units", ())):
            if not {"/", "*"} & set(pattern):
                yield Finding(
                    code="GK7003",
                    message=f"Sink spec.notify[{number}].units: {pattern!r} matches no unit",
                    places=(document.place(("spec", "notify", number, "units", index)),),
                    notes=(
                        ("why", "the name of a unit is namespace/name"),
                        ("next", f'write "*/{pattern}" or "{pattern}/*"'),
                    ),
                )


def _plain(url: str) -> bool:
    return sendable(url) and not urlsplit(url).query and not urlsplit(url).fragment


def _named(part: str) -> bool:
    return bool(part) and part not in {".", ".."} and part.isprintable() and " " not in part


def _bad(document: Document, field: str, message: str, next_: str) -> Finding:
    return Finding(
        code="GK7029",
        message=f"spec.forge.{field}: {message}",
        places=(document.place(("spec", "forge", field)),),
        notes=(("next", next_),),
    )

"""Configuration of a checkout that would run programs, switched off for our commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

LIST: Final = ("config", "--show-scope", "-z", "--list")
_OWN: Final = frozenset({"local", "worktree"})
_OVERRIDDEN: Final = _OWN | {"command"}
# Keys whose values git runs, or that let it: filters, drivers, helpers, hooks, transports.
_RUNS: Final = re.compile(
    r"filter\..*\.(?:clean|smudge|process|required)|diff\.external|diff\..*\.(?:command|textconv)"
    r"|merge\..*\.driver|core\.(?:fsmonitor|sshcommand|askpass|gitproxy|editor|pager|hookspath"
    r"|alternaterefscommand|attributesfile)|gpg\.(?:.*\.)?program|gpg\..*\.defaultkeycommand"
    r"|credential\.(?:.*\.)?helper|sequence\.editor"
    r"|uploadpack\.packobjectshook"
)
_DEFAULTS: Final[Mapping[str, str]] = {
    "required": "false",
    "fsmonitor": "false", "hookspath": "/dev/null", "gpg.program": "gpg",
    "gpg.openpgp.program": "gpg", "gpg.ssh.program": "ssh-keygen", "gpg.x509.program": "gpgsm",
}  # fmt: skip


def inert(listed: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Variables for git under which a checkout's own configuration runs no program.

    `listed` is what `LIST` prints. Keys that the user's own configuration sets, too, have that
    value; others have the default of git, or one that runs nothing.
    """
    pairs = list(settings(listed))
    theirs = dict.fromkeys(key for scope, key, _ in pairs if scope in _OWN and _runs(key))
    chosen: list[tuple[str, str]] = []
    for key in theirs:
        users = [
            value for scope, known, value in pairs if known == key and scope not in _OVERRIDDEN
        ]
        last = key.rpartition(".")[2]
        if last == "helper":  # a list: the empty entry takes back what was named before
            chosen += [(key, ""), *((key, value) for value in users)]
        else:
            chosen.append(
                (key, users[-1] if users else _DEFAULTS.get(key, _DEFAULTS.get(last, "")))
            )
    start = int(variables.get("GIT_CONFIG_COUNT") or 0)
    out = {"GIT_CONFIG_COUNT": str(start + len(chosen))} if chosen else {}
    for number, (key, value) in enumerate(chosen, start):
        out |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return out


def _runs(key: str) -> bool:
    return _RUNS.fullmatch(key.casefold()) is not None


def settings(listed: str) -> Iterator[tuple[str, str, str]]:
    """(scope, key, value) of each setting that `LIST` prints."""
    words = listed.split("\0")
    for scope, entry in zip(words[::2], words[1::2], strict=False):
        key, _, value = entry.partition("\n")
        yield scope, key, value

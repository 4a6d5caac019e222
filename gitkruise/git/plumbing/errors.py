"""git's messages about an unusable remote, as one clear error with a next step."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from gitkruise.errors import Finding, RefMissing, SourceFailed
from gitkruise.git.plumbing.process import Result
from gitkruise.printable import shown

HOST_KEY_ADVICE: Final = (
    "{keyscan} prints the host key; compare it with the server's, then put that line into "
    "known_hosts of the Secret that secretRef names"
)
_KINDS: Final[tuple[tuple[str, str, str, str], ...]] = (
    # what git or ssh prints, in any case · code · our sentence · next step
    ((r"host key verification failed|remote host identification has changed|"
      r"no matching host key"),
     "GK3020", "the host key of {url} is not one we trust",
     HOST_KEY_ADVICE),
    (r"no alternative certificate|certificate subject name|does not match target host name",
     "GK3021", "the certificate of the git remote {url} is not one we trust",
     "use a host name that the certificate is for, or a certificate for this host"),
    (r"certificate verification failed|ssl certificate problem",
     "GK3021", "the certificate of the git remote {url} is not one we trust",
     ("renew it if it has expired; otherwise put the authority that signed it into ca.crt of the "
      "Secret that secretRef names")),
    ((r"certificate file|client certificate|private key file|private key from|x\.509 key file|"
      r"unable to (set|load) .*(certificate|key)"),
     "GK3022", "the certificate of ours for the git remote {url} cannot be used",
     ("put a certificate and its key, both PEM, into tls.crt and tls.key of the Secret that "
      "secretRef names")),
    (r"certificate required|bad certificate|unknown ca\b|handshake failure",
     "GK3022", "the git remote {url} wants a certificate of ours that it trusts",
     "put tls.crt and tls.key into the Secret that secretRef names"),
    (r"error: 429|too many requests|rate limit",
     "GK3107", "the git remote {url} says that we ask too often",
     "give this source a longer interval, and a Receiver for its web hooks"),
    ((r"authentication failed|could not read (username|password)|permission denied|"
      r"permission to \S+ denied|terminal prompts disabled|invalid credentials|error: 40[13]"),
     "GK3102", "the git remote {url} does not accept our credentials",
     ("check the Secret that secretRef names: username and password, bearerToken, or identity "
      "with its passphrase as password")),
    (r"unable to update url base from redirection|redirect|returned error: 30[1-8]",
     "GK3004", "the git remote {url} redirects elsewhere, which is refused",
     ("curl -sI '{url}/info/refs?service=git-upload-pack'   shows where to; write that address, if "
      "you trust it")),
    ((r"not found|does not appear to be a git repository|no such file or directory|"
      r"(not|is this) a git repository"),
     "GK3103", "there is no git repository at {url}",
     "check the address; a private repository looks missing without credentials"),
    (r"fsck|corrupt|bad object|index-pack|unpack|inflate|file size limit",
     "GK3105", "what the git remote {url} sends is damaged, malicious or too large",
     "run git fsck in that repository"),
)  # fmt: skip
_OUR_FOLDER: Final = re.compile(r"/[^\s\"']*/gitkruise-\w+/")  # of credentials; gone by then
_TELLING: Final = r"(fatal|error|ssh(?=:)|remote|load key|kex_\w+|.*denied|.*failed)\b"
# git adds it to whatever ssh printed before; ssh may also end in silence.
_SILENT: Final = "fatal: Could not read from remote repository."
# Servers that let a key read only say so before git can report a ref.
_FORBIDDEN: Final = re.compile(
    r"^(remote: )?ERROR: |returned error: 403|^fatal: .* denied to ", re.MULTILINE
)
NOT_SEEN: Final = "what runs stays as it is; new commits are not seen"
NOT_PUSHED: Final = "the repository there"
_MOVED: Final = (
    r"fetch first|non-fast-forward|stale info|cannot lock ref|already exists|"
    r"incorrect old value|failed to update ref|reference already|but expected|is at [0-9a-f]{40}"
)
_LEVEL: Final = re.compile(r"^(?:fatal|error): ", re.IGNORECASE)  # of a line of git or a server
# A ref and a folder of refs cannot have one name: this does not pass as a race does.
_TAKEN: Final = re.compile(r"'(refs/[^']+)' exists; cannot create")


class RefMoved(Exception):
    """The result of a failed compare-and-swap: another push was faster; nothing was changed."""


def remote_failure(
    url: str, result: Result, *, tries: int, timeout_s: float, unchanged: str = NOT_SEEN
) -> SourceFailed:
    """The error for a git command that talked to `url` and failed. `tries` counts in a row."""
    reply = _output(result, timeout_s)
    code, message, next_step = (
        "GK3101",
        "cannot reach the git remote {url}",
        "git ls-remote {url}   on the machine of gitkruise, and correct what it reports",
    )
    for pattern, *kind in _KINDS:
        if not result.stopped and re.search(pattern, result.errors, re.IGNORECASE):
            code, message, next_step = kind
            break
    again = f", {tries} tries in a row" if tries > 1 else ""
    return SourceFailed(
        Finding(
            code=code,
            message=message.format(url=url),
            notes=(
                ("git said", reply + again),
                ("unchanged", unchanged),
                ("next", next_step.format(url=url, keyscan=keyscan(url))),
            ),
        )
    )


def no_git_server(url: str) -> SourceFailed:
    """GK3103 for a server that answers a request of git in another protocol."""
    notes = (
        ("why", "it answers as no git server does: with a page to sign in, for example"),
        ("unchanged", NOT_SEEN),
        ("next", "check the address, and the Secret that secretRef names"),
    )
    message = f"there is no git repository at {url}"
    return SourceFailed(Finding(code="GK3103", message=message, notes=notes))


def no_known_hosts(url: str) -> SourceFailed:
    """GK3020 for an ssh remote that is read without `known_hosts`."""
    notes = (
        ("unchanged", NOT_SEEN),
        ("next", HOST_KEY_ADVICE.format(keyscan=keyscan(url))),
    )
    message = f"no known_hosts for {url}; an unknown host is never trusted"
    return SourceFailed(Finding(code="GK3020", message=message, notes=notes))


def keyscan(url: str) -> str:
    """Return the command that prints the lines of an ssh remote for `known_hosts`."""
    if "://" not in url:  # USER@HOST:PATH
        return f"ssh-keyscan {url.partition(':')[0].rpartition('@')[2]}"
    parts = urlsplit(url)
    return f"ssh-keyscan {f'-p {parts.port} ' if parts.port else ''}{parts.hostname}"


def _rejection(text: str) -> str:
    """Return the words of the server about a push, then those of git, without its ids."""
    lines = [line.strip() for line in text.splitlines()]
    server = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
    git = [line.rpartition("\t")[2] for line in lines if line.startswith("!\t")]
    reasons = list(filter(None, [*server, *git])) or lines
    return " ".join(filter(None, (_LEVEL.sub("", line) for line in reasons)))


def _output(result: Result, timeout_s: float) -> str:
    if result.stopped == "time":
        return f"nothing for {timeout_s:g} s"
    if result.stopped == "end":
        return "nothing until gitkruise ended"
    if result.stopped:
        return f"more than its limit of {result.stopped} allows"
    lines = [line.strip() for line in result.errors.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(_TELLING, line, re.IGNORECASE)]
    why = [line for line in telling if line != _SILENT] or [*lines, *telling]
    last = (why or [f"nothing (exit status {result.status})"])[0]
    return shown(_OUR_FOLDER.sub("", _LEVEL.sub("", last)))


def no_repository(url: str, why: str = "not a repository") -> SourceFailed:
    """GK3103: a folder of this machine is not what a user took it for."""
    message = f"there is no git repository at {shown(url)}: {why}"
    notes = (
        ("unchanged", "what runs stays as it is; no commit was read"),
        ("next", "name a repository or checkout: --repo of a command, url of a GitSource"),
    )
    return SourceFailed(Finding(code="GK3103", message=message, notes=notes))


def ref_missing(url: str, ref: str, known: list[str]) -> SourceFailed:
    """GK3201, with the nearest things that do exist."""
    from difflib import get_close_matches  # noqa: PLC0415  only on this path

    near = get_close_matches(ref, known, 3)
    notes = [("did you mean", ", ".join(shown(n) for n in near))] if near else []
    notes.append(("unchanged", "nothing is deleted because a ref is missing"))
    notes.append(("next", "push it, or name one that is there"))
    message = f"{shown(ref)} is not in {url}"
    return RefMissing(Finding(code="GK3201", message=message, notes=tuple(notes)))


def refusal(url: str, result: Result) -> Exception | None:
    """Return the error of a push that the server answered with a refusal; None for another."""
    lines = result.output.decode("utf-8", "replace").splitlines()
    refused = next((line for line in lines if line.startswith("!\t")), "")
    if refused or _FORBIDDEN.search(result.errors):
        return push_refused(url, f"{refused}\n{result.errors}", result)
    return None


def push_refused(url: str, text: str, result: Result) -> Exception:
    """Return RefMoved when another push was faster, else GK3106. `text` is git's output."""
    taken = _TAKEN.search(text)
    if taken is None and re.search(_MOVED, text, re.IGNORECASE):
        return RefMoved(shown(text))
    message = f"the push to {url} was refused"
    git_note = ("git said", shown(_rejection(text) or str(result.status)))
    next_step = "check the write credentials and the branch rules of the repository"
    if taken is not None:
        next_step = f"rename or delete {shown(taken[1])} there, or push to a branch of another name"
    notes = (git_note, ("unchanged", NOT_PUSHED), ("next", next_step))
    return SourceFailed(Finding(code="GK3106", message=message, notes=notes))

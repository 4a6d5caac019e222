"""gitkruise-hook: the post-receive hook of a bare repository that notifies a Receiver."""

from __future__ import annotations

import argparse
import hashlib
import hmac
import http.client
import json
import secrets
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gitkruise.kube.system.private_files import read_regular

WITHIN_S: Final = 2.0
_REFS_MAX: Final = 1_000
_EXAMPLE: Final = """\
hooks/post-receive of the repository, executable:
  #!/bin/sh
  exec gitkruise-hook --url http://127.0.0.1:9292/hook/ID --secret-file /etc/gitkruise/hook.key
"""


def main() -> None:
    """Read `old new ref` lines from standard input and send the refs.

    An error is one line on standard error; the push never fails because of it.
    """
    parser = argparse.ArgumentParser(
        prog="gitkruise-hook",
        description="Notify a Receiver of type generic-hmac of a push.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", required=True, help="URL of the Receiver")
    parser.add_argument("--secret-file", required=True, type=Path, help="file with the shared key")
    parser.add_argument(
        "--repository", default="", help="URL of the repository [default: the current directory]"
    )
    given = parser.parse_args()
    lines = sys.stdin.buffer.read().decode("utf-8", "replace").splitlines()
    refs = [words[2] for line in lines if len(words := line.split()) == 3][:_REFS_MAX]
    try:
        status = send(given.url, given.secret_file, given.repository or str(Path.cwd()), refs)
    except (OSError, ValueError, http.client.HTTPException) as error:
        sys.stderr.write(f"gitkruise-hook: could not notify {given.url}: {error}\n")
        return
    if status not in {200, 202}:
        sys.stderr.write(f"gitkruise-hook: {given.url} answered {status}\n")


def send(url: str, secret_file: Path, repository: str, refs: list[str]) -> int:
    """Post one delivery; return the status. Raises OSError, ValueError or HTTPException."""
    key = read_regular(secret_file).decode().rstrip("\r\n")
    body = json.dumps({"repository": repository, "refs": refs}).encode()
    headers = {
        "Content-Type": "application/json",
        "X-Delivery": secrets.token_hex(16),
        "X-Signature": "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest(),
    }
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("not an http or https URL")
    https = parts.scheme == "https"
    kind = http.client.HTTPSConnection if https else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=WITHIN_S)
    try:
        connection.request("POST", parts.path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


if __name__ == "__main__":
    main()

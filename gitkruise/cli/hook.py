"""gitkruise-hook: a bare repository's post-receive hook that tells a Receiver what was pushed."""

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

WITHIN_S: Final = 2.0
_REFS_MAX: Final = 1_000
_EXAMPLE: Final = """\
hooks/post-receive of the repository, executable:
  #!/bin/sh
  exec gitkruise-hook --url http://127.0.0.1:9292/hook/ID --secret-file /etc/gitkruise/hook.key
"""


def main() -> None:
    """Read `old new ref` lines from standard input and send them. A push never fails by it:
    whatever goes wrong is one line on standard error."""
    parser = argparse.ArgumentParser(
        prog="gitkruise-hook",
        description="Tell a Receiver of type generic-hmac what was pushed.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", required=True, help="the Receiver's address")
    parser.add_argument("--secret-file", required=True, type=Path, help="holds the shared key")
    parser.add_argument("--repository", default="", help="its address; this folder by default")
    given = parser.parse_args()
    lines = sys.stdin.buffer.read().decode("utf-8", "replace").splitlines()
    refs = [words[2] for line in lines if len(words := line.split()) == 3][:_REFS_MAX]
    try:
        status = send(given.url, given.secret_file, given.repository or str(Path.cwd()), refs)
    except (OSError, ValueError, http.client.HTTPException) as error:
        sys.stderr.write(f"gitkruise-hook: {given.url} was not told: {error}\n")
        return
    if status not in {200, 202}:
        sys.stderr.write(f"gitkruise-hook: {given.url} answered {status}\n")


def send(url: str, secret_file: Path, repository: str, refs: list[str]) -> int:
    """Post one delivery; the status. Raises OSError, ValueError or HTTPException."""
    key = secret_file.read_text().rstrip("\r\n")
    body = json.dumps({"repository": repository, "refs": refs}).encode()
    headers = {
        "Content-Type": "application/json",
        "X-Delivery": secrets.token_hex(16),
        "X-Signature": "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest(),
    }
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("it is no http or https address")
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

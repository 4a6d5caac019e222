"""Asks a webhook at a steady rate: python -m bench.caller URL CA REVIEW RATE COUNT WARM_UP.

A process of its own, so that the server's CPU time is the server's. Prints how long each review
waited for its answer, in seconds, as JSON; one that could not be sent in time waits from when it
should have been sent.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from pathlib import Path

import aiohttp

CONNECTIONS = 25  # that an API server keeps
PATH, HEADERS = "/mutate", {"Content-Type": "application/json"}


async def ask(session: aiohttp.ClientSession, url: str, body: bytes, due: float) -> float:
    await asyncio.sleep(max(0.0, due - time.monotonic()))
    async with session.post(url, data=body, headers=HEADERS) as answer:
        text = await answer.read()
        assert answer.status == 200, text
        assert json.loads(text)["response"].get("patch"), text
    return time.monotonic() - due


async def main(url: str, authority: str, body: bytes, rate_s: float, counts: list[int]) -> None:
    """A run for each count; all but the last only warm up, and end with an empty line."""
    trust = ssl.create_default_context(cafile=authority)
    connector = aiohttp.TCPConnector(ssl=trust, limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as session:
        for count in counts:
            begin = time.monotonic() + 0.1
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(ask(session, url + PATH, body, begin + at / rate_s))
                    for at in range(count)
                ]
            last = count is counts[-1]
            sys.stdout.write(json.dumps([t.result() for t in tasks]) if last else "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    words = sys.argv[1:]
    asked = Path(words[2]).read_bytes()
    numbers = [int(words[5]), int(words[4])]
    asyncio.run(main(words[0], words[1], asked, float(words[3]), numbers))

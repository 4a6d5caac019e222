"""A GitHub App's way in: a signed claim is exchanged for a token that lasts an hour."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gitkruise.errors import Unavailable
from gitkruise.gitops.forges.http import ForgeTransport, JsonClient
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.times import parse_time

_SPARE: Final = timedelta(minutes=5)  # a token is renewed so long before it ends
_CLAIM: Final = timedelta(minutes=9)  # GitHub takes ten at most
_CLOCKS_APART: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class AppKey:
    """Id of an app, id of its installation, and its private key."""

    app: str
    installation: str
    key: rsa.RSAPrivateKey = field(repr=False)

    @classmethod
    def read(cls, app: str, installation: str, pem: str) -> AppKey:
        """Raises ValueError or TypeError when `pem` is no plain RSA key or an id is none."""
        key = load_pem_private_key(pem.encode(), password=None)
        if not isinstance(key, rsa.RSAPrivateKey) or not installation.isdecimal():
            raise ValueError("not an app's key")
        return cls(app, installation, key)

    def claim(self, now: datetime) -> str:
        """A JSON web token that says who we are, for nine minutes."""
        head = {"alg": "RS256", "typ": "JWT"}
        times = {"iat": now - _CLOCKS_APART, "exp": now + _CLAIM}
        body = {"iss": self.app, **{k: int(v.timestamp()) for k, v in times.items()}}
        signed = b".".join(_packed(msgspec.json.encode(part)) for part in (head, body))
        signature = self.key.sign(signed, padding.PKCS1v15(), SHA256())
        return (signed + b"." + _packed(signature)).decode()


def _packed(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class AppToken:
    """Token of an installation, renewed before it expires."""

    def __init__(self, key: AppKey, transport: ForgeTransport, root: str, clock: Clock) -> None:
        self._key, self._clock = key, clock
        self._client = JsonClient(transport, root, self._claim, clock)
        self._token, self._ends = "", clock.now()

    async def headers(self) -> Mapping[str, str]:
        """The Authorization of a request. Raises ApiError."""
        if not self._token or self._clock.now() + _SPARE >= self._ends:
            path = f"/app/installations/{self._key.installation}/access_tokens"
            answer = await self._client.send("POST", path, {})
            try:
                ends = parse_time(answer["expires_at"])
                self._token, self._ends = str(answer["token"]), ends or self._clock.now()
            except (KeyError, TypeError, ValueError) as error:
                raise Unavailable("the forge gave no token that can be read") from error
        return {"Authorization": f"Bearer {self._token}"}

    async def login(self) -> str:
        """The name the app's comments carry. Raises ApiError."""
        app = await self._client.get("/app")
        if not isinstance(app, dict) or not app.get("slug"):
            raise Unavailable("the forge does not say who the app is")
        return f"{app['slug']}[bot]"

    async def _claim(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._key.claim(self._clock.now())}"}

"""Tags of an image, as its registry lists them for a unit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gitkruise.errors import ApiError, Finding, NotFound, SourceFailed, Unavailable, UsageProblem
from gitkruise.gitops.config.registry_checks import registry_address
from gitkruise.gitops.http_get import Access, Fetch, fetch
from gitkruise.gitops.registry.distribution import RegistryRepository
from gitkruise.gitops.registry.requests import ContentHost
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.image_policy import ChosenTag, FollowedImage, choose_tag
from gitkruise.planner.node.pull_credentials import BadSecretError, credentials_for
from gitkruise.printable import shown
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from gitkruise.wire.values.base64_text import decoded

_SECRETS: Final = ResourceRef("", "v1", "secrets")
_PULL_SECRETS: Final = frozenset({"kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"})
_CREDENTIALS: Final = frozenset({"password", "bearerToken", "ca.crt"})


@dataclass(frozen=True, slots=True)
class SeenTags:
    """Number of tags that the registry of an image listed, the one that the policy chooses of them,
    and the time."""

    count: int
    chosen: ChosenTag
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TagReader:
    """Reads tags with the Secrets of one unit; `transport` has the unit's rights, or is None where
    no cluster was named."""

    unit: Unit
    transport: Transport | None
    clock: Clock
    get: Fetch = fetch

    async def read(self, image: FollowedImage) -> SeenTags:
        """Ask the registry. Raises SourceFailed GK3507 and UsageProblem GK7025."""
        address = registry_address(image.repository)
        access = await self._access(image)
        host = ContentHost(
            home=address, access=access, namespace=self.unit.namespace,
            guarded=self.unit.custom, fetch=self.get,
        )  # fmt: skip
        try:
            found = await RegistryRepository(host).tags()
        except Unavailable as error:
            why = access.cover(error.message)
            if image.secret_ref is not None and not access.headers():
                where = f"{self.unit.namespace}/{image.secret_ref.name}"
                why += f"; its Secret {where} has no login for it"
            raise _unread(image, why) from error
        if found is None:
            raise _unread(image, "the registry does not have it")
        # In a thread: there may be many tags, and the pattern is that of a stranger.
        chosen = await asyncio.to_thread(choose_tag, found, image)
        return SeenTags(len(found), chosen, self.clock.now())

    async def _access(self, image: FollowedImage) -> Access:
        if image.secret_ref is None:
            return Access()
        where = f"{self.unit.namespace}/{image.secret_ref.name}"
        if self.transport is None:
            raise _unread(image, f"its Secret {where} is in the cluster, and none was named")
        request = ApiRequest(
            verb="get", resource=_SECRETS, namespace=self.unit.namespace, name=image.secret_ref.name
        )
        try:
            secret = (await self.transport.send(request)).body
        except NotFound as error:
            raise _unread(image, f"its Secret {where} does not exist") from error
        except ApiError as error:
            raise _unread(image, f"its Secret {where} is not readable: {error.message}") from error
        if secret.get("type") in _PULL_SECRETS:
            return _login(image, secret, where)
        data = _texts(secret.get("data") or {})
        if not _CREDENTIALS & data.keys():
            raise _no_credentials(where, "it has no key that is known")
        return Access(data)


def _login(image: FollowedImage, secret: Mapping[str, object], where: str) -> Access:
    """Return the login of a pull secret for an image. Raises UsageProblem GK7025."""
    try:
        logins = credentials_for(image.repository, [secret])
    except BadSecretError as error:
        raise _no_credentials(where, str(error)) from error
    data = secret.get("data")
    held = _texts({"ca.crt": data["ca.crt"]}) if isinstance(data, dict) and "ca.crt" in data else {}
    if logins:  # without one the pull is anonymous, as on a node
        held |= {"username": logins[0].username, "password": logins[0].password}
    return Access(held)


def _texts(data: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for key, value in data.items():
        try:
            found[key] = decoded(value).decode()
        except ValueError:
            continue  # no key of credentials is binary
    return found


def _no_credentials(where: str, why: str) -> UsageProblem:
    known = "write a pull secret, or username and password, or bearerToken, and ca.crt"
    message = f"the Secret {where} has no credentials for a registry"
    notes = (("why", why), ("next", known))
    return UsageProblem(Finding(code="GK7025", message=message, notes=notes))


def _unread(image: FollowedImage, why: str) -> SourceFailed:
    return SourceFailed(
        Finding(
            code="GK3507",
            message=f"the tags of image {shown(image.repository)} cannot be read: {why}",
            notes=(
                ("unchanged", "no tag of it is written to git; what runs stays as it is"),
                ("next", "correct images.repository or its Secret, or wait for the registry"),
            ),
        )
    )

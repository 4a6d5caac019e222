"""Deliveries in the forms that forges document: headers and bodies, not yet signed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any, Final

KEY: Final = "a key that both of us know"
TOKEN: Final = "whsec_" + base64.b64encode(bytes(range(32))).decode()

GITHUB: Final[dict[str, Any]] = {
    "ref": "refs/heads/main",
    "before": "6113728f27ae82c7b1a177c8d03f9e96e0adf246",
    "after": "0000000000000000000000000000000000000000",
    "created": False, "deleted": True, "forced": False, "base_ref": None, "compare": "",
    "commits": [], "head_commit": None,
    "repository": {
        "id": 186853002, "name": "Hello-World", "full_name": "Codertocat/Hello-World",
        "private": False, "owner": {"name": "Codertocat", "id": 21031067},
        "html_url": "https://github.com/Codertocat/Hello-World",
        "url": "https://github.com/Codertocat/Hello-World", "description": None,
        "git_url": "git://github.com/Codertocat/Hello-World.git",
        "ssh_url": "git@github.com:Codertocat/Hello-World.git",
        "clone_url": "https://github.com/Codertocat/Hello-World.git",
        "default_branch": "master",
    },
    "pusher": {"name": "Codertocat", "email": "21031067+Codertocat@users.noreply.github.com"},
}  # fmt: skip
GITEA: Final[dict[str, Any]] = {
    "ref": "refs/heads/develop",
    "before": "28e1879d029cb852e4844d9c718537df08844e03",
    "after": "bffeb74224043ba2feb48d137756c8a9331c449a",
    "compare_url": "http://localhost:3000/gitea/webhooks/compare/28e1879d029c...bffeb7422404",
    "commits": [{"id": "bffeb74224043ba2feb48d137756c8a9331c449a", "message": "Webhooks Yay!"}],
    "repository": {
        "id": 140, "name": "webhooks", "full_name": "gitea/webhooks", "description": "",
        "html_url": "http://localhost:3000/gitea/webhooks",
        "ssh_url": "ssh://gitea@localhost:2222/gitea/webhooks.git",
        "clone_url": "http://localhost:3000/gitea/webhooks.git", "default_branch": "master",
    },
}  # fmt: skip
GITLAB: Final[dict[str, Any]] = {
    "object_kind": "push", "event_name": "push",
    "before": "95790bf891e76fee5e1747ab589903a6a1f80f22",
    "after": "da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
    "ref": "refs/heads/master", "ref_protected": True, "project_id": 15,
    "project": {
        "id": 15, "name": "Diaspora", "description": "", "avatar_url": None,
        "web_url": "http://example.com/mike/diaspora",
        "git_ssh_url": "git@example.com:mike/diaspora.git",
        "git_http_url": "http://example.com/mike/diaspora.git", "namespace": "Mike",
    },
    "commits": [], "total_commits_count": 0,
}  # fmt: skip
BITBUCKET: Final[dict[str, Any]] = {
    "actor": {"type": "user"},
    "repository": {
        "type": "repository", "name": "repo", "full_name": "team/repo",
        "links": {"html": {"href": "https://bitbucket.org/team/repo"}},
    },
    "push": {"changes": [
        {"new": {"type": "branch", "name": "main", "target": {"type": "commit"}}, "old": None,
         "forced": False, "created": True},
        {"new": None, "old": {"type": "tag", "name": "v1"}, "closed": True},
    ]},
}  # fmt: skip
DATA_CENTER: Final[dict[str, Any]] = {
    "eventKey": "repo:refs_changed", "date": "2017-09-13T22:18:29+1000",
    "repository": {
        "slug": "repository", "id": 84, "project": {"key": "PROJ"},
        "links": {"clone": [
            {"href": "ssh://git@bitbucket.example.com:7999/proj/repository.git", "name": "ssh"},
            {"href": "https://bitbucket.example.com/scm/proj/repository.git", "name": "http"},
        ]},
    },
    "changes": [{"ref": {"id": "refs/heads/master", "type": "BRANCH"},
                 "refId": "refs/heads/master", "type": "UPDATE"}],
}  # fmt: skip
GENERIC: Final[dict[str, Any]] = {"repository": "/srv/git/fleet.git", "refs": ["refs/tags/v2"]}

BODIES: Final = {
    "github": GITHUB, "gitea": GITEA, "forgejo": GITEA, "gitlab": GITLAB, "bitbucket": BITBUCKET,
    "generic-hmac": GENERIC,
}  # fmt: skip
NAMES: Final = {
    "github": ("X-Hub-Signature-256", "sha256=", "X-GitHub-Delivery", "X-GitHub-Event", "push"),
    "gitea": ("X-Gitea-Signature", "", "X-Gitea-Delivery", "X-Gitea-Event", "push"),
    "forgejo": ("X-Forgejo-Signature", "", "X-Forgejo-Delivery", "X-Forgejo-Event", "push"),
    "gitlab": ("X-Gitlab-Token", "", "Idempotency-Key", "X-Gitlab-Event", "Push Hook"),
    "bitbucket": ("X-Hub-Signature", "sha256=", "X-Request-UUID", "X-Event-Key", "repo:push"),
    "generic-hmac": ("X-Signature", "sha256=", "X-Delivery", "X-None", "x"),
}


def text(body: Any) -> bytes:
    return json.dumps(body).encode()


def signed(kind: str, body: bytes, *, key: str = KEY, delivery: str = "one") -> dict[str, str]:
    """The headers of a push that carries `body`."""
    header, prefix, id_header, event_header, event = NAMES[kind]
    digest = hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        header: key if kind == "gitlab" else prefix + digest,
        id_header: delivery,
        event_header: event,
    }


def signed_by_token(body: bytes, at: int, delivery: str = "msg_1") -> dict[str, str]:
    """The headers of GitLab's signing tokens."""
    payload = f"{delivery}.{at}.".encode() + body
    digest = hmac.new(bytes(range(32)), payload, hashlib.sha256).digest()
    return {
        "X-Gitlab-Event": "Push Hook",
        "webhook-id": delivery,
        "webhook-timestamp": str(at),
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }

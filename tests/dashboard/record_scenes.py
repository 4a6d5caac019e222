"""Rows of the commit, drift and node pages, and a plan, as the command supplies them."""

from __future__ import annotations

from typing import Any

from tests.dashboard.scenes import COMMIT, pod, pods

OLDER = "8ab13d0" + "0" * 33
WRITTEN = {"sandbox": "2026-11-25T10:05:00Z"}

CART = {"group": "apps.kruise.io", "kind": "CloneSet", "namespace": "shop", "name": "cart"}


def lane(state: str = "Held", **more: Any) -> dict[str, Any]:
    return {
        "state": state, "objects": 1, "updated": 4, "asked": 4, "named": ["applied"], **more,
    }  # fmt: skip


def commits(**more: Any) -> dict[str, Any]:
    """Two commits, of which one moved two units."""
    both = {"sandbox shop/shop": lane(), "prod shop/shop": lane("Rolling", named=[])}
    return {
        "": {
            "lanes": ["prod shop/shop", "sandbox shop/shop"], "commits": 2, "written": WRITTEN,
            "stale": [],
        },
        COMMIT: {
            "id": COMMIT, "subject": "cart v2", "author": "Dana K",
            "time": "2026-11-25T10:00:00Z", "started": "2026-11-25T10:00:05Z", "lanes": both,
            **more,
        },
        OLDER: {
            "id": OLDER, "subject": "cart v1", "author": "Bo L", "time": "2026-11-24T10:00:00Z",
            "started": "2026-11-24T10:00:05Z",
            "lanes": {"sandbox shop/shop": lane("Done", updated=10, asked=10, named=[])},
        },
    }  # fmt: skip


def proposed(text: str = "cart: newer image") -> dict[str, Any]:
    """Two open pull requests of a forge, and the place of branches."""
    about = {"into": "main", "units": ["shop/shop"]}
    pulls = {
        f"pr/shop/forge/{number}": {
            **about, "owner": "shop/forge", "number": number, "title": text, "head": COMMIT,
            "branch": f"topic-{number}",
        }
        for number in (41, 42)
    }  # fmt: skip
    return {**pulls, "branch/shop/src": {**about, "owner": "shop/src"}}


def proposal(text: str = "cart: newer image", **more: Any) -> dict[str, Any]:
    return {
        "id": COMMIT, "name": "pull request 42", "subject": text, "into": "main", "base": OLDER,
        "url": "https://forge.example/shop/pull/42", "live": True, **more,
    }  # fmt: skip


def record(text: str = "held by partition 60%") -> dict[str, Any]:
    """The record of one commit; `text` is that of others."""
    return {
        "": {
            "id": COMMIT, "subject": "cart v2", "author": "Dana K",
            "time": "2026-11-25T10:00:00Z", "recorded": True, "written": WRITTEN, "stale": [],
        },
        "unit/sandbox shop/shop": {
            "cluster": "sandbox", "unit": "shop/shop", "path": "apps", "named": ["applied"],
            "state": "Held", "message": text, "since": "2026-11-25T10:00:20Z",
            "waits": "approval", "problems": [f"GK1203 {text}"], "promotion": "step 1 of 3",
        },
        "step/sandbox shop/shop/cart/0": {
            **CART, "noun": "cloneset",
            "commit": COMMIT, "change": f"app v1 → v2 {text}", "asked": 4, "replicas": 10,
            "updated": 4, "state": "Held", "started": "2026-11-25T10:00:05Z", "message": text,
            "cluster": "sandbox", "unit": "shop/shop", "result": "4/4 in 12s",
        },
        "intervention/sandbox shop/shop/0": intervention(text),
    }  # fmt: skip


def intervention(text: str = "spec.replicas of kubectl") -> dict[str, Any]:
    return {
        "time": "2026-11-25T10:03:00Z", "object": "CloneSet shop/cart", **CART,
        "reason": "DriftCorrected", "message": text, "cluster": "sandbox",
    }  # fmt: skip


def in_git(text: str = "Looks right.") -> dict[str, Any]:
    return {
        "id": COMMIT, "subject": "cart v2", "author": "Dana K", "time": "2026-11-25T10:00:00Z",
        "parents": [OLDER], "message": f"cart v2\n\n{text}", "approvals": ["0123456789ab"],
    }  # fmt: skip


def finding(text: str, code: str = "GK1001", severity: str = "error") -> dict[str, Any]:
    place = {"file": "apps/cart.yaml", "line": 3, "column": 0, "label": ""}
    notes = [{"label": "next", "text": text}]
    return {"code": code, "severity": severity, "message": text, "places": [place], "notes": notes}


def plan(text: str = "4 of 10 pods in place") -> dict[str, Any]:
    span = {"text": text, "tone": "plain"}
    alarm = {"text": "nothing that cannot be taken back", "tone": "alarm"}
    return {
        "compared": "8ab13d0 → 4f2c9e1", "subject": "cart v2", "source": "offline", "live": False,
        "blast": [alarm, span], "moreEntries": 0, "nothing": "", "summary": f"1 changed {text}",
        "command": "gitkruise plan 4f2c9e1", "planned": "2026-11-25T10:06:00Z",
        "findings": [finding(text, "GK1301", "warning")],
        "entries": [{
            "change": "configure", "name": f"~ CloneSet shop/cart {text}",
            "source": "apps/cart.yaml:1",
            "fields": [{"path": "template.containers[app].image", "words": "v1 → v2", "line": 20,
                        "remark": "in place", "loud": True}],
            "moreFields": 0, "effect": [span], "notes": [text],
            "rollouts": [{
                "name": "", "effect": [[span]], "budget": "2 at a time",
                "steps": [{"done": 2, "total": 10, "moves": "2 pods in place", "lasts": "≈ 6s"},
                          {"done": 4, "total": 10, "moves": "2 pods in place", "lasts": "≈ 6s"}],
                "moreSteps": 0, "hold": [span], "notes": [text],
            }],
        }],
    }  # fmt: skip


def diff(text: str = "image: v2") -> dict[str, Any]:
    lines = ["@@ -1,2 +1,2 @@", "-image: v1", f"+{text}", " kept"]
    return {
        "entries": [{
            "change": "configure", "name": "~ CloneSet shop/cart", "source": "apps/cart.yaml:1",
            "added": 1, "removed": 1, "lines": lines, "moreLines": 0,
        }],
        "moreEntries": 0,
    }  # fmt: skip


def drift_item(text: str = "12") -> dict[str, Any]:
    return {
        "object": CART,
        "field": "spec.replicas", "git": "10", "live": text, "manager": "kubectl",
        "written": "2026-11-25T09:59:00Z", "cluster": "sandbox", "unit": "shop/shop",
    }  # fmt: skip


def drift(text: str = "12") -> dict[str, Any]:
    return {
        "": {"written": WRITTEN, "stale": []},
        "drift/sandbox/shop/shop/cart/spec.replicas": drift_item(text),
        "intervention/sandbox/0": intervention(text),
    }


def compared(text: str = "12") -> dict[str, Any]:
    return {
        "items": [drift_item(text)],
        "findings": [],
        "hidden": "",
        "compared": 7,
        "command": "gitkruise drift --sandbox",
        "at": "2026-11-25T10:07:00Z",
    }


def nodes(text: str = "image cannot be pulled") -> dict[str, Any]:
    return {
        "node-1": {
            "name": "node-1", "pods": 5, "states": {"Ready": 5}, "failing": [], "failingPods": 0,
            "roles": {"update": 2, "current": 3}, "workloads": {"cloneset/shop/cart": 5},
        },
        "node-2": {
            "name": "node-2", "pods": 2, "states": {"Ready": 1, "Failing": 1},
            "roles": {"update": 1, "other": 1}, "workloads": {"cloneset/shop/cart": 2},
            "failing": [{"pod": "shop/cart-1", "why": text}], "failingPods": 1,
        },
    }  # fmt: skip


def machines(text: str = "Ready False: KubeletNotReady") -> dict[str, Any]:
    well = {"kubelet": "v1.35.1", "cordoned": False, "conditions": [], "images": ""}
    ill = {**well, "cordoned": True, "conditions": [text], "images": "3 of 4 pulled, 1 failed"}
    return {"nodes": {"node-1": well, "node-2": ill}, "unread": [], "at": WRITTEN["sandbox"]}


def slot(slot: str = "A", image: str = "envoy:1.32", **more: Any) -> dict[str, Any]:
    return {
        "slot": slot, "image": image, "working": False, "placeholder": False, "up": True, **more,
    }  # fmt: skip


def sidecars(text: str = "differs in more than images until replaced") -> dict[str, Any]:
    """A SidecarSet with a pod in the middle of a hot upgrade, one done, and one that is barred."""
    old, new = slot("A", "envoy:1.31"), slot("B", working=True)
    waiting = slot("A", "empty:1", placeholder=True)
    pairs = {
        "shop/a-done": ("update", [waiting, new], ""),
        "shop/b-both": ("update", [old, new], ""),
        "shop/c-old": ("current", [{**old, "working": True}, {**waiting, "slot": "B"}], text),
    }
    found = {
        key: pod(role, why=why, sidecars=[{"name": "envoy", "hot": True, "slots": slots}])
        for key, (role, slots, why) in pairs.items()
    }
    head = pods(3, 2)[""]
    return {"": {**head, "kind": "SidecarSet", "noun": "sidecarset", "namespace": ""}, **found}

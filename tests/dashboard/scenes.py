"""Rows of a small shop, as the command supplies them."""

from __future__ import annotations

from typing import Any

HEAD: dict[str, Any] = {
    "cluster": "sandbox", "repository": "shop", "units": [], "stale": [], "unread": [],
    "problem": "", "problemSince": "",
}  # fmt: skip
COMMIT = "4f2c9e1" + "0" * 33


def rollout(updated: int = 4, replicas: int = 10, **more: Any) -> dict[str, Any]:
    """A rollout that keeps the rest of its pods."""
    revisions = [
        {"hash": "6b5d4f7c9", "role": "update", "commit": COMMIT, "pods": updated,
         "available": updated, "images": {"app": "cart:v2"}},
        {"hash": "7f9c4d8b6", "role": "current", "commit": "", "pods": replicas - updated,
         "available": replicas - updated, "images": {"app": "cart:v1"}},
    ]  # fmt: skip
    return {
        "replicas": replicas, "partition": "60%", "canary": "", "asked": 4, "updated": updated,
        "updatedReady": updated, "ready": replicas, "available": replicas,
        "maxUnavailable": 2, "revisions": revisions, **more,
    }  # fmt: skip


def row(name: str, state: str = "Done", message: str = "", **more: Any) -> dict[str, Any]:
    """One object of the fleet."""
    return {
        "object": {"group": "apps.kruise.io", "kind": "CloneSet", "namespace": "shop",
                   "name": name},
        "noun": "cloneset", "state": state, "message": message, "unit": "shop/shop",
        "commit": COMMIT, "path": f"apps/{name}.yaml", "rollout": rollout(), **more,
    }  # fmt: skip


def fleet(*rows: dict[str, Any], **head: Any) -> dict[str, Any]:
    """The fleet's rows by their pages."""
    found = {f"{r['noun']}/shop/{r['object']['name']}": r for r in rows}
    return {"": {**HEAD, **head}, **found}


def pod(role: str = "update", state: str = "Ready", **more: Any) -> dict[str, Any]:
    return {
        "namespace": "shop", "state": state, "why": "", "role": role, "revision": "6b5d4f7c9",
        "node": "node-1", "restarts": 0, **more,
    }  # fmt: skip


def pods(count: int = 10, fresh: int = 4, state: str = "Held", **more: Any) -> dict[str, Any]:
    """A workload's rows: its head and its pods."""
    head = {
        "noun": "cloneset", "kind": "CloneSet", "namespace": "shop", "name": "cart",
        "state": state, "message": "", "unit": "shop/shop", "commit": COMMIT,
        "path": "apps/cart.yaml", "rollout": rollout(fresh, count), **more,
    }  # fmt: skip
    found = {f"cart-{n:05}": pod("update" if n < fresh else "current") for n in range(count)}
    return {"": head, **found}


def event(name: str, **more: Any) -> dict[str, Any]:
    return {
        "namespace": "shop", "name": name, "last": "2026-11-25T10:00:00Z", "type": "Normal",
        "reason": "SuccessfulUpdate", "object": "cloneset/cart", "count": 1,
        "message": "updated pod cart-00001 in place", **more,
    }  # fmt: skip

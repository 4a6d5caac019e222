"""The manifest of a Deployment with a canary, for commands."""

from __future__ import annotations

from textwrap import dedent


def web(
    image: str = "v1", canary: str = "", *, replicas: int = 10, paused: bool | None = None,
    strategy: str = "rollingUpdate: {maxSurge: 2, maxUnavailable: 1}", name: str = "web",
) -> str:  # fmt: skip
    """`canary` as it is written in the annotation; "" for none."""
    notes = f'annotations: {{gitkruise.io/canary: "{canary}"}}' if canary else "labels: {}"
    pause = "" if paused is None else f"paused: {str(paused).lower()}"
    text = dedent(f"""\
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: {name}
          namespace: shop
          {notes}
        spec:
          replicas: {replicas}
          {pause}
          selector:
            matchLabels:
              app: {name}
          strategy:
            {strategy}
          template:
            metadata:
              labels:
                app: {name}
            spec:
              containers:
                - name: app
                  image: registry.example.com/{name}:{image}
        """)
    return "".join(line for line in text.splitlines(keepends=True) if line.strip())

"""Conversion of objects between the API versions of their kind.

`registry` looks up conversions by kind (CloneSet, SidecarSet and autoscalers among them); `hpa`
holds HorizontalPodAutoscaler, which keeps fields without a v1 counterpart in annotations.

Which version a request uses is the caller's matter. Callers: the model cluster for reads, writes
and apply, the conversion webhook, the Kubernetes client, builds and previews.
"""

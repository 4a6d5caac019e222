"""Prometheus metrics and health probes of a controller process.

`metrics` takes records of units and requests to the API server, and computes gauges at the time of
a scrape. `server` serves /metrics, /healthz and /readyz; outside of loopback addresses it asks the
API server who may read them.

Logs, Kubernetes events and crash reports are not here. The caller is `gitkruise.app`.
"""

"""Defaults and validation of Kubernetes' built-in kinds other than pods.

One module per family: workloads, services, networking, endpoints, storage, autoscalers, policies,
quotas, configuration objects and webhook configurations; `statuses` validates status counts.

Pods and pod templates are in `admission.pods`, OpenKruise's kinds in `admission.kruise`. The table
of `admission.chain` refers to the functions here; the endpoint controllers of the model cluster use
the same defaults.
"""

"""Defaults and validation of pods and pod templates.

`pods` is the stage for Pod objects; `template` validates the spec that pods and all workloads
share, with one module per part: containers, env, probes, resources, scheduling, volumes.

OpenKruise's additions to new pods are in `admission.kruise`. Callers: the stages of `admission`
for every kind with a pod template, and the fast path of `world.write`.
"""

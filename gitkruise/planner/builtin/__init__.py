"""Kubernetes' own workloads, for clusters without kube-controller-manager.

They follow the controllers of Kubernetes 1.34: `deployment` with `proportional_scaling` and
`deployment_status`, `replicaset`, `statefulset`, `daemonset` with `daemonset_nodes`, `job`,
`cronjob`, `autoscaler`. Only the embedded cluster drives them, through
`planner.workloads.EMBEDDED`; on a real cluster Kubernetes does, and gitkruise reads their health
in `planner.health`. There, `canary_steering` leads a Deployment to its canary next to Kubernetes'
own controller; `canary` holds the rules that both ways share. The observer of pods by owner is
`pod_owner`.
"""

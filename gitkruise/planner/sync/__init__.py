"""One sync round of a unit: objects to apply, objects to prune, drift, hooks.

`plan` combines `apply_order` (waves and stages), `dependencies`, `hooks`, `drift` and `prune`;
`diff` compares live with desired objects on the fields that git sets; `annotations` are those that
gitkruise writes and obeys.

Requests are sent by `gitops.reconcile`; rollouts of pods are planned per workload. Callers:
`gitops.reconcile`, `gitops.preview`, `gitops.status`.
"""

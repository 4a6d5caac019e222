"""Admission of WorkloadSpreads, and of new pods that belong to one.

`fields` are the rules of the object; `injection` makes a pod that is created one of the subset that
`model.planning.workload_spread` chooses. The choice is recorded by the caller: the model cluster
after the pod is stored, the webhook before it answers.

Callers: `admission.kruise.lazy_stages`, on the first object of the kind.
"""

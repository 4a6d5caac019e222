"""PodUnavailableBudgets: which pods they mean, what their status is, and what they let pass.

`matching` ties pods, workloads and budgets to each other; `availability` judges one pod; `status`
is the controller of the kind; `decision` answers whether one operation on one pod may pass, for
the admission of the embedded cluster and of the webhook; `ledger` answers for a round of a planner
that moves many pods.

The fields of the object are admitted in `admission/kruise`. Callers: the CloneSet planner, the
list of workloads, the model cluster, the webhook.
"""

"""Verdicts about measurements: pure decisions on values that were measured elsewhere.

`verdict` judges one value and folds it into the counts of its metric; `schedule` says when the next
one is due and what a run as a whole amounts to. Rules: Argo Rollouts' analysis runs (count,
failureLimit, inconclusiveLimit, consecutiveErrorLimit) and Flagger's threshold ranges.

The measurements are taken by `gitops.analysis`; `gitops.actions.promotion` acts on the runs.

Callers: `gitops.analysis`, `gitops.actions`, `cli`.
"""

"""Tables of meta/v1 for `kubectl get`: columns and rows, as kube-apiserver prints them.

`tables` turns replies and watch events into Tables or PartialObjectMetadata. `columns` finds the
columns of a kind; `pods`, `jobs`, `nodes` and `printed_kinds` compute the rows; `cells` has ages
and the JSONPath of CRD columns. The tables of gitkruise's own commands are in `cli.console`. Called
by `sandbox.handlers`.
"""

"""Engine, messages and formats that all admission rules share.

`engine` evaluates tables of rules, `field_errors` builds Kubernetes' field errors, `formats` and
`labels` check names, ports, labels and selectors, `selector_overlap` finds selectors that can match
one object, and `request` is the value that stages receive.

Rules of particular kinds are in the sibling packages. Callers: every package of `admission`, the
model cluster, the webhook server and the checks of a build.
"""

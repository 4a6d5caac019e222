"""Admission and conversion webhooks for a real cluster that has no OpenKruise.

`service` starts everything: `certificates` creates and renews the serving certificates,
`registration` registers the webhooks and the conversion of CRDs and keeps them registered, and
`server` accepts HTTPS requests within limits. `review` decodes an AdmissionReview, `handler`
answers it, and `cluster_context` supplies the other objects that a rule reads.

The rules themselves are in `gitkruise.admission`, the same that the embedded cluster runs. Calls
of the embedded cluster to other webhooks are in `sandbox.backend`. The caller is the command
`gitkruise webhook`.
"""

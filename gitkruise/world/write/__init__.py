"""The path of a write from its body to the object that is stored.

`pipeline` prunes, defaults, admits and validates; `decoding`, `object_meta`, `server_set_fields`
and `omitempty` copy rules of kube-apiserver. `webhooks` and `webhook_pipeline` call registered
webhooks, `review_apis` answers reviews. `fast_write` and `fast_patch` shorten forecasts.

Admission rules themselves are in `gitkruise.admission`, merging and managedFields in `world.apply`,
storage in `world.store`. Callers: the verbs of `world.api`.
"""

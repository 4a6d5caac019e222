"""Registered webhooks: the embedded cluster asks and obeys them as the real kube-apiserver does."""

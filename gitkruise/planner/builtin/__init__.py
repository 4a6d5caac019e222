"""Workloads of Kubernetes itself, for clusters on which no kube-controller-manager runs."""

"""Tests against a real kube-apiserver; they skip with a reason where there is none."""

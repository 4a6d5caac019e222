//go:build tools

// Package kubeassets pins the kube-apiserver and the kubectl that the tests build and run.
package kubeassets

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubectl"
)

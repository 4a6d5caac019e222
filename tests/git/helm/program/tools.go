//go:build tools

// Package program pins the helm that the tests build and run.
package program

import _ "helm.sh/helm/v3/cmd/helm"

//go:build tools

// Package program pins the kustomize of the image, at the version inside of the tests' kubectl.
package program

import _ "sigs.k8s.io/kustomize/kustomize/v5"

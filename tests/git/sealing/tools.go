//go:build tools

// Package sealing pins the sops that the tests build and run.
package sealing

import _ "github.com/getsops/sops/v3/cmd/sops"

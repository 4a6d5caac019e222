//go:build tools

// Package forgeassets pins the Gitea that the tests build and run.
package forgeassets

import _ "code.gitea.io/gitea"

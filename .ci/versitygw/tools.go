//go:build tools

// The program that `go build` makes here, in the version of go.mod.
package tools

import _ "github.com/versity/versitygw/cmd/versitygw"

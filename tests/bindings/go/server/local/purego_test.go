//go:build !cgo

package local_test

import _ "quire.dev/quire/purego"

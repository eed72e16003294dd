//go:build !cgo

package story

import _ "quire.dev/quire/purego"

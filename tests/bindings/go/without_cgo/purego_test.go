//go:build !cgo

package withoutcgo

import _ "quire.dev/quire/purego"

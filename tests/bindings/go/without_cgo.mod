// As go.mod, for programs without cgo.
module quire.dev/quire-test

go 1.19

require (
	quire.dev/quire v0.1.0
	quire.dev/quire/purego v0.1.0
)

require github.com/ebitengine/purego v0.10.2 // indirect

replace (
	quire.dev/quire => ../../../bindings/go
	quire.dev/quire/purego => ../../../bindings/go/purego
)

// As go.mod, for programs without cgo: they bring the package that calls the library.
module quire.dev/quire-test

go 1.19

require (
	github.com/ebitengine/purego v0.10.2
	quire.dev/quire v0.0.0
)

replace quire.dev/quire => ../../../bindings/go

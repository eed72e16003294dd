module quire.dev/quire/purego

go 1.19

require (
	github.com/ebitengine/purego v0.10.2
	quire.dev/quire v0.1.0
)

replace quire.dev/quire => ../

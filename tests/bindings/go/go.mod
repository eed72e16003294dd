module quire.dev/quire-test

go 1.19

require quire.dev/quire v0.0.0

replace quire.dev/quire => ../../../bindings/go

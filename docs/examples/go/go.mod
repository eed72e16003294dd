module quire.dev/quire-examples

go 1.19

require quire.dev/quire v0.1.0

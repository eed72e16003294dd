module quire.dev/quire

go 1.19

module github.com/alphorn/alphorn/crates/capi/go

go 1.21

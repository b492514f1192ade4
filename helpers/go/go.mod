module odradek.dev/helpers/go

go 1.25

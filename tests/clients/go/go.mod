module odradek/scenarios

go 1.25

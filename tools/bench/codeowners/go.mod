module github.com/countersign/countersign/tools/bench/codeowners

go 1.26.0

require (
	github.com/countersign/countersign v0.0.0
	github.com/hmarr/codeowners v1.2.1
)

require (
	github.com/pelletier/go-toml/v2 v2.4.3 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
)

replace github.com/countersign/countersign => ../../..

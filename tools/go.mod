module github.com/countersign/countersign/tools

go 1.26.0

require (
	github.com/countersign/countersign v0.0.0-00010101000000-000000000000
	github.com/google/go-cmp v0.7.0
)

require go.yaml.in/yaml/v3 v3.0.6

require (
	golang.org/x/image v0.48.0
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/tools v0.52.0
)

replace github.com/countersign/countersign => ../

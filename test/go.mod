module github.com/countersign/countersign/test

go 1.26.0

replace github.com/countersign/countersign => ../

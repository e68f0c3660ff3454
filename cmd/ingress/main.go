// Command ingress receives GitHub's webhooks. It faces the internet and holds no GitHub key.
package main

import (
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/services/ingress"
)

func main() { daemon.Main("ingress", ingress.Run) }

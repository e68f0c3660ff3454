package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func newPolicyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "policy",
		Short: "Check policy files and what a change of them would turn",
		RunE:  func(*cobra.Command, []string) error { return errors.New("policy: not built yet") },
	}
}

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func newEvaluateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "evaluate SNAPSHOT.json",
		Short: "Decide a recorded snapshot and print the verdict",
		Args:  cobra.ExactArgs(1),
		RunE:  func(*cobra.Command, []string) error { return errors.New("evaluate: not built yet") },
	}
}

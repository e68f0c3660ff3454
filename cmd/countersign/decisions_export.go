package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/store"
)

// The forms of an export.
const (
	formJSONL  = "jsonl"
	formInToto = "in-toto"
)

// decisionPredicateType names the predicate of docs/attestations.md.
const decisionPredicateType = "https://github.com/countersign/countersign/attestation/decision/v1"

// exportedDecision is one line of an export, and the predicate of an attestation: a decision as it is kept, so that its hash can be
// computed again from it.
type exportedDecision struct {
	Installation   int64     `json:"installation"`
	Sequence       int64     `json:"sequence"`
	Decision       int64     `json:"decision"`
	RepositoryID   int64     `json:"repository_id"`
	Repository     string    `json:"repository"`
	Number         int       `json:"number"`
	HeadSHA        string    `json:"head_sha"`
	Generation     int64     `json:"generation"`
	HeadGeneration int64     `json:"head_generation"`
	Epoch          int64     `json:"authority_epoch"`
	DeliveryID     string    `json:"delivery_id"`
	Reason         string    `json:"reason"`
	EvidenceDigest string    `json:"evidence_digest"`
	Evidence       string    `json:"evidence"` // the exact text that the hash covers
	Verdict        string    `json:"verdict"`
	Conclusion     string    `json:"conclusion"`
	Title          string    `json:"title"`
	Summary        string    `json:"summary"`
	Explanation    string    `json:"explanation"`
	CheckRunID     int64     `json:"check_run_id"`
	Traceparent    string    `json:"traceparent"`
	RequestedAt    time.Time `json:"requested_at"`
	DecidedAt      time.Time `json:"decided_at"`
	Outcome        string    `json:"outcome"`
	SettledAt      time.Time `json:"settled_at,omitzero"`
	PreviousHash   string    `json:"previous_hash"`
	Hash           string    `json:"hash"`
}

// statement is an in-toto Statement v1, unsigned.
type statement struct {
	Type          string           `json:"_type"`
	Subject       []subject        `json:"subject"`
	PredicateType string           `json:"predicateType"`
	Predicate     exportedDecision `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

func exported(d store.StoredDecision) exportedDecision {
	return exportedDecision{
		Installation: int64(d.Installation), Sequence: d.Sequence, Decision: int64(d.ID), RepositoryID: int64(d.Head.Repository), Repository: d.FullName,
		Number: d.Number, HeadSHA: string(d.Head.SHA), Generation: int64(d.Generation), HeadGeneration: int64(d.HeadGeneration), Epoch: int64(d.Epoch),
		DeliveryID: string(d.DeliveryID), Reason: d.Reason, EvidenceDigest: d.EvidenceDigest, Evidence: d.Evidence, Verdict: d.Verdict,
		Conclusion: d.Conclusion, Title: d.Title, Summary: d.Summary, Explanation: d.Explanation, CheckRunID: d.RunID, Traceparent: d.Traceparent,
		RequestedAt: d.RequestedAt.UTC(), DecidedAt: d.DecidedAt.UTC(), Outcome: d.Outcome, SettledAt: d.SettledAt.UTC(), PreviousHash: d.PreviousHash, Hash: d.StoredSum,
	}
}

func attest(d store.StoredDecision) statement {
	return statement{
		Type:          "https://in-toto.io/Statement/v1",
		Subject:       []subject{{Name: fmt.Sprintf("%s@%s", d.FullName, d.Head.SHA), Digest: map[string]string{"gitCommit": string(d.Head.SHA)}}},
		PredicateType: decisionPredicateType, Predicate: exported(d),
	}
}

func newDecisionsExportCommand() *cobra.Command {
	var f decisionFlags
	var form, output string
	c := &cobra.Command{
		Use: "export [DECISION...]", Short: "Export decisions with their evidence, as JSON lines or as in-toto statements",
		Long: `Export decisions with their evidence, the newest first, one a line: as they are kept
(jsonl), or each as an unsigned in-toto Statement about the commit that was decided
(in-toto; sign it with the tool of your choice). docs/attestations.md describes both.

The evidence holds names, files and reviews of private repositories.`,
		Example: `  countersign decisions export --since 36h > decisions.jsonl
  countersign decisions export 1041 --format in-toto`,
		RunE: func(c *cobra.Command, args []string) error {
			if form != formJSONL && form != formInToto {
				return fmt.Errorf("--format %s: use %s or %s", quoted(form), formJSONL, formInToto)
			}
			s, err := f.db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			return writeExport(c, output, func(encoder *json.Encoder) error {
				return eachDecision(c, s, &f, args, func(d store.StoredDecision) error {
					if form == formInToto {
						return encoder.Encode(attest(d))
					}
					return encoder.Encode(exported(d))
				})
			})
		},
	}
	f.add(c)
	c.Flags().StringVar(&form, "format", formJSONL, formJSONL+" or "+formInToto)
	c.Flags().StringVar(&output, "output", "", "write to a new file, readable by its owner only, instead of standard output")
	return c
}

// writeExport writes all or says that it did not: a file is complete when the command ends with 0.
func writeExport(c *cobra.Command, name string, write func(*json.Encoder) error) error {
	if name == "" {
		return encodeExport(c.OutOrStdout(), write)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return errors.Join(encodeExport(file, write), file.Close())
}

func encodeExport(to io.Writer, write func(*json.Encoder) error) error {
	buffered := bufio.NewWriter(to)
	encoder := json.NewEncoder(jsonEscaper{buffered})
	encoder.SetEscapeHTML(false)
	if err := write(encoder); err != nil {
		return err
	}
	return buffered.Flush()
}

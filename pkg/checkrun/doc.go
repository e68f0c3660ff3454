// Package checkrun is the managed check run of one exact head: how it is bound to a generation, proved unfinished, and
// written once as a decision. Invalidator and evaluator share it, so that the protocol of revocation and publication
// (architecture P1, P2, P3, P10, P11) is written down once.
//
// # What it owns
//
// The order of requests to GitHub and of rows in pkg/store around one check run, inside the publication guard.
//
// # What it guarantees
//
//   - A run id is written only by the generation it is bound to, under the head's exclusive guard, after the claim was
//     verified inside it (RG-183…185, RG-255, RG-256).
//   - "Unfinished" is read back by id, never assumed from an answer (P2). Where GitHub leaves a completed run completed, or
//     where a write may still be on its way, one new run is posted for the generation and the old one is set to failure.
//   - A decision's row is committed before its write and confirmed after the read-back (I9). Whatever else happens, the run is
//     set back before the guard is released, also when the caller is cancelled (RG-259…265).
//
// # What it does not check
//
// Whether the verdict is right, and whether the evidence still is what GitHub shows: that is the evaluator's final read.
//
// # Order of writes, and a crash after each
//
// Reset: PATCH → GET → BindRun. After the PATCH: the next pass reads the run by id and binds it.
// New run: POST → PATCH of the old run to failure → Posted → GET → BindRun. After the POST, and after the PATCH: the next pass
// finds the run by its external id and adopts it. After Posted: it reads the run by id.
// Publish: RecordIntent → PATCH → GET → ConfirmPublication. After RecordIntent, and after the PATCH: the head carries an
// unconfirmed intent; the next claimant advances the generation and the invalidator posts a new run.
package checkrun

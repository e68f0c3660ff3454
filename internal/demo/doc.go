// Package demo plays a story on the GitHub stand-in and watches what Countersign says on each head: `countersign dev --demo`
// shows it, and the end-to-end tests play it under faults.
//
// Every step changes the stand-in as people and Apps would, waits until the check says what the step expects, and reports how
// long that took. A step that is not reached names itself and what the check said instead. It proves nothing beyond what the
// stand-in shows to anybody: it never looks into the database.
package demo

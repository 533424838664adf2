package changes_test

import (
	"testing"

	"airlock/internal/changes"
)

func TestCommitAndUndoOfEveryKindOfChange(t *testing.T) {
	w := newWorld(t, everything, everythingChanged)
	r, err := w.commit(nil)
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	w.isBox()
	if r.State != changes.Committed || r.Remaining != 0 {
		t.Errorf("Commit: state %s, %d remaining, want committed and none", r.State, r.Remaining)
	}
	w.noLeftovers()
	if _, err := w.undo(nil); err != nil {
		t.Fatalf("Undo: %v", err)
	}
	w.isOld()
	w.noLeftovers()
	if r, err = w.commit(nil); err != nil {
		t.Fatalf("second Commit: %v", err)
	}
	w.isBox()
	if r.State != changes.Committed || r.Remaining != 0 {
		t.Errorf("second Commit: state %s, %d remaining, want committed and none", r.State, r.Remaining)
	}
	if _, err := w.undo(nil); err != nil {
		t.Fatalf("second Undo: %v", err)
	}
	w.isOld()
	if _, err := w.store.Redo(t.Context(), testID, nil); err != nil {
		t.Fatalf("Redo: %v", err)
	}
	w.isBox()
	if _, err := w.undo(nil); err != nil {
		t.Fatalf("Undo of the Redo: %v", err)
	}
	w.isOld()
}

package alphorn

import (
	"bytes"
	"os"
	"testing"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestCollectionsHaveEachAVerdict(t *testing.T) {
	message, get := []byte("head"), must[[]byte](t)
	var keys, votes []byte
	for i := uint64(0); i < 9; i++ {
		secret := InteropSecretKey(i)
		keys = append(keys, get(PublicKey(secret))...)
		votes = append(votes, get(Sign(secret, message))...)
	}
	committees := must[*Committees](t)(NewCommittees(keys, nil, 5, 4))
	sum := get(Aggregate(append(votes[:SignatureBytes:SignatureBytes], votes[4*SignatureBytes:5*SignatureBytes]...)))
	good := Collection{0, []byte{0x11}, message, sum}
	if verdicts := get(committees.Verify(good)); !bytes.Equal(verdicts, []byte{0}) {
		t.Fatal(verdicts)
	}
	changed, empty, far := good, good, good
	changed.Message, empty.Signers, far.Committee = []byte("tail"), nil, 2
	verdicts, err := committees.Verify(good, changed, empty, far)
	if !bytes.Equal(verdicts, []byte{0, 4, 1, 1}) || err == nil {
		t.Fatal(verdicts, err)
	}
	done := make(chan error)
	for i := 0; i < 4; i++ {
		go func() {
			_, err := committees.Verify(good, good)
			done <- err
		}()
	}
	for i := 0; i < 4; i++ {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if verdicts, err := new(Committees).Verify(good); verdicts != nil || err == nil {
		t.Fatal(verdicts, err)
	}
	if verdicts, err := committees.Verify(); len(verdicts) != 0 || err != nil {
		t.Fatal(verdicts, err)
	}
}

func TestCommitteesShareThreadsAndAreClosed(t *testing.T) {
	key := must[[]byte](t)(PublicKey(InteropSecretKey(0)))
	tasks := func() int {
		all, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Skip("threads are not counted here")
		}
		return len(all)
	}
	kept := []*Committees{must[*Committees](t)(NewCommittees(key, nil, 1))}
	before := tasks()
	for len(kept) < 20 {
		kept = append(kept, must[*Committees](t)(NewCommittees(key, nil, 1)))
	}
	// A few of them may be those of Go.
	if added := tasks() - before; added > 10 {
		t.Errorf("%d committees more have %d threads more", len(kept)-1, added)
	}
	vote := Collection{0, []byte{1}, nil, must[[]byte](t)(Sign(InteropSecretKey(0), nil))}
	for _, committees := range kept {
		if _, err := committees.Verify(vote); err != nil {
			t.Error(err)
		}
		committees.Close()
		committees.Close()
		if verdicts, err := committees.Verify(vote); verdicts != nil || err == nil {
			t.Error(verdicts, err)
		}
	}
}

func TestLengthsAreLookedAt(t *testing.T) {
	errors := []error{}
	note := func(_ any, err error) { errors = append(errors, err) }
	note(KeyGen(make([]byte, 31)))
	note(PublicKey(nil))
	note(Sign(make([]byte, 33), nil))
	note(Aggregate(make([]byte, 97)))
	note(NewCommittees(make([]byte, 47), nil, 1))
	note(NewCommittees(make([]byte, 48), make([]byte, 95), 1))
	note(NewCommittees(make([]byte, 48), nil, 1))
	note(NewCommittees(nil, nil, -1))
	for i, err := range errors {
		if failed, is := err.(*Error); !is || failed.Status == 0 || failed.Message == "" {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

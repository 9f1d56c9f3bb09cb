// A client of `alphorn worker` with nothing but the standard library.
//
//	go run client.go http://127.0.0.1:5062 keys/public-keys.json votes/*.json
//
// It uploads the keys of a committee in SSZ, has the signatures proved, follows the job until it has
// ended, has the proof verified, and cancels a second job with its session.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strings"
	"time"
)

type keyFile struct {
	Scheme string
	Keys   []struct {
		PublicKey string `json:"public_key"`
	}
}

type voteFile struct {
	PublicKey string `json:"public_key"`
	Slot      uint64
	Message   string
	Signature string
}

// state is what the worker says of a job; see docs/worker.md.
type state struct {
	ID          string
	State       string
	RunningMs   uint64 `json:"running_ms"`
	PredictedMs uint64 `json:"predicted_ms"`
	ProofSha256 string `json:"proof_sha256"`
	Bad         []int
	Valid       []bool
	Reason      string
}

type worker struct {
	url    string
	token  string
	client http.Client
}

type vote struct {
	position  int
	signature []byte
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

func unhex(text string) []byte {
	data, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		fail("%q: %v", text, err)
	}
	return data
}

func (w *worker) open(method, path string, body []byte) *http.Response {
	request, err := http.NewRequest(method, w.url+path, bytes.NewReader(body))
	if err != nil {
		fail("%v", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/octet-stream")
	}
	if w.token != "" {
		request.Header.Set("Authorization", "Bearer "+w.token)
	}
	answer, err := w.client.Do(request)
	if err != nil {
		fail("%v", err)
	}
	return answer
}

func (w *worker) ask(method, path string, body []byte) []byte {
	answer := w.open(method, path, body)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		fail("%s %s: %s %s %v", method, path, answer.Status, content, err)
	}
	return content
}

func (w *worker) state(method, path string, body []byte) state {
	var said state
	if err := json.Unmarshal(w.ask(method, path, body), &said); err != nil {
		fail("%s: %v", path, err)
	}
	return said
}

// follow prints the states of a job until it has ended.
func (w *worker) follow(id string) state {
	answer := w.open("GET", "/worker/v1/jobs/"+id+"/events", nil)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	kind := ""
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if name == "event" {
			kind = value
		}
		if name != "data" || kind == "snapshot" || kind == "gap" {
			continue
		}
		var said state
		if err := json.Unmarshal([]byte(value), &said); err != nil {
			fail("%v", err)
		}
		fmt.Printf("%s: %d of about %d ms\n", kind, said.RunningMs, said.PredictedMs)
		if kind == "ended" {
			return said
		}
	}
	fail("the stream of events ended before the job: %v", lines.Err())
	return state{}
}

// bitlist is an SSZ Bitlist: the bits, and one more that says how many there are.
func bitlist(votes []vote, length int) []byte {
	bits := make([]byte, length/8+1)
	for _, vote := range votes {
		bits[vote.position/8] |= 1 << (vote.position % 8)
	}
	bits[length/8] |= 1 << (length % 8)
	return bits
}

func about(registry [32]byte, slot uint64, message []byte) []byte {
	body := append([]byte{}, registry[:]...)
	body = binary.LittleEndian.AppendUint64(body, slot)
	return append(body, message...)
}

func offsets(body []byte, values ...int) []byte {
	for _, value := range values {
		body = binary.LittleEndian.AppendUint32(body, uint32(value))
	}
	return body
}

func main() {
	if len(os.Args) < 4 {
		fail("usage: client URL KEYS VOTE...")
	}
	w := &worker{url: os.Args[1], token: os.Getenv("ALPHORN_WORKER_TOKEN")}
	w.client.Timeout = 10 * time.Minute
	var file keyFile
	load(os.Args[2], &file)
	keys := []byte{}
	place := map[string]int{}
	for i, key := range file.Keys {
		keys = append(keys, unhex(key.PublicKey)...)
		place[key.PublicKey] = i
	}
	var first voteFile
	votes := []vote{}
	for _, path := range os.Args[3:] {
		var one voteFile
		load(path, &one)
		first = one
		votes = append(votes, vote{place[one.PublicKey], unhex(one.Signature)})
	}
	sort.Slice(votes, func(i, j int) bool { return votes[i].position < votes[j].position })

	set := strings.TrimPrefix(file.Scheme, "xmss-")
	number := map[string]byte{"prod": 1, "test": 2, "compact": 3}[set]
	name := append([]byte("alphorn-registry-1"), number, 0, 0, 0, 0)
	registry := sha256.Sum256(append(name, keys...))
	w.ask("POST", "/worker/v1/registries?set="+set, keys)

	members := len(file.Keys)
	bits := bitlist(votes, members)
	message := unhex(first.Message)
	body := offsets(about(registry, first.Slot, message), 80, 80+len(bits))
	body = append(body, bits...)
	for _, vote := range votes {
		body = append(body, vote.signature...)
	}
	// Asked twice under one name it is one job.
	job := w.state("POST", "/worker/v1/jobs/prove?name=mine", body)
	if again := w.state("POST", "/worker/v1/jobs/prove?name=mine", body); again.ID != job.ID {
		fail("%s and %s are one job", job.ID, again.ID)
	}
	second := w.state("POST", "/worker/v1/jobs/prove?session=of-no-use", body)
	w.ask("DELETE", "/worker/v1/sessions/of-no-use", nil)

	ended := w.follow(job.ID)
	if ended.State != "done" {
		fail("no proof: %s, bad %v %s", ended.State, ended.Bad, ended.Reason)
	}
	proof := w.ask("GET", "/worker/v1/jobs/"+job.ID+"/proof", nil)
	digest := sha256.Sum256(proof)
	if "0x"+hex.EncodeToString(digest[:]) != ended.ProofSha256 {
		fail("the proof is not the one that was announced")
	}

	entry := offsets(about(registry, first.Slot, message), 76, 8, 8+len(bits))
	entry = append(append(entry, bits...), proof...)
	body = append(offsets(nil, 4, 4), entry...)
	verdict := w.state("POST", "/worker/v1/jobs/verify?wait_ms=20000&priority=verdict", body)
	if len(verdict.Valid) != 1 || !verdict.Valid[0] {
		fail("the proof does not hold: %+v", verdict)
	}
	cancelled := w.state("GET", "/worker/v1/jobs/"+second.ID+"?wait_ms=20000", nil)
	fmt.Printf("%d signatures in %d bytes; the second job is %s\n", len(votes), len(proof), cancelled.State)
}

func load(path string, into any) {
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		fail("%s: %v", path, err)
	}
}

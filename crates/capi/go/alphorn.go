// Package alphorn is alphorn.h for Go: BLS votes of whole committees. Other functions of the header are called as
// these are, through cgo and pkg-config.
//
// All functions may be called by several goroutines at once.
package alphorn

// #cgo pkg-config: alphorn
// #include <alphorn.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// Sizes of the encodings.
const (
	SecretKeyBytes = C.ALPHORN_BLS_SECRET_KEY_BYTES
	PublicKeyBytes = C.ALPHORN_BLS_PUBLIC_KEY_BYTES
	SignatureBytes = C.ALPHORN_BLS_SIGNATURE_BYTES
)

// Verdicts says what a verdict of Committees.Verify means, by its number.
var Verdicts = [...]string{
	"valid",
	"no such committee, or the signers do not fit it",
	"the signature does not decode",
	"nobody signed, or the signers' keys cancel",
	"the signature does not hold",
}

// What one call verifies at most.
const collectionsMax = 1 << 16

// An Error is what the library says of a call.
type Error struct {
	// Status is one of ALPHORN_ERROR_... of the header.
	Status int
	// Message names the value and its bound.
	Message string
}

func (e *Error) Error() string { return e.Message }

func failure(e *C.alphorn_error) error {
	if e.status == C.ALPHORN_OK {
		return nil
	}
	return &Error{int(e.status), C.GoString(&e.message[0])}
}

// given is what a call wrote, nothing if it failed.
func given(bytes []byte, e *C.alphorn_error) ([]byte, error) {
	if err := failure(e); err != nil {
		return nil, err
	}
	return bytes, nil
}

// at is where C finds the bytes of a slice, for the time of a call.
func at(bytes []byte) *C.uint8_t {
	if len(bytes) == 0 {
		return nil
	}
	return (*C.uint8_t)(&bytes[0])
}

// sized tells whether a slice is as long as C takes for granted.
func sized(what string, bytes []byte, want int) error {
	if len(bytes) == want {
		return nil
	}
	message := fmt.Sprintf("length of %s = %d bytes, must be %d", what, len(bytes), want)
	return &Error{C.ALPHORN_ERROR_ARGUMENT, message}
}

// KeyGen makes the secret key of secret keying material, of at least 32 bytes.
func KeyGen(material []byte) ([]byte, error) {
	var e C.alphorn_error
	key := make([]byte, SecretKeyBytes)
	C.alphorn_bls_key_gen(at(material), C.size_t(len(material)), at(key), &e)
	return given(key, &e)
}

// InteropSecretKey is the secret key of a validator that everyone can compute: for tests and devnets.
func InteropSecretKey(validator uint64) []byte {
	key := make([]byte, SecretKeyBytes)
	C.alphorn_bls_interop_secret_key(C.uint64_t(validator), at(key), nil)
	return key
}

// PublicKey is the public key of a secret key.
func PublicKey(secretKey []byte) ([]byte, error) {
	if err := sized("secret key", secretKey, SecretKeyBytes); err != nil {
		return nil, err
	}
	var e C.alphorn_error
	key := make([]byte, PublicKeyBytes)
	C.alphorn_bls_public_key(at(secretKey), at(key), &e)
	return given(key, &e)
}

// Sign signs a message.
func Sign(secretKey, message []byte) ([]byte, error) {
	if err := sized("secret key", secretKey, SecretKeyBytes); err != nil {
		return nil, err
	}
	var e C.alphorn_error
	signature := make([]byte, SignatureBytes)
	C.alphorn_bls_sign(at(secretKey), at(message), C.size_t(len(message)), at(signature), &e)
	return given(signature, &e)
}

// Aggregate sums signatures that stand one after the other.
func Aggregate(signatures []byte) ([]byte, error) {
	count := len(signatures) / SignatureBytes
	if err := sized("signatures", signatures, count*SignatureBytes); err != nil {
		return nil, err
	}
	var e C.alphorn_error
	sum := make([]byte, SignatureBytes)
	C.alphorn_bls_aggregate(at(signatures), C.size_t(count), at(sum), &e)
	return given(sum, &e)
}

// threads is the context of all committees: it has a thread for each core, and lasts as long as the process.
var threads = sync.OnceValues(func() (*C.alphorn_context, error) {
	var e C.alphorn_error
	context := C.alphorn_context_new(0, &e)
	return context, failure(&e)
})

// Committees are keys in committee order, ready to be summed.
type Committees struct {
	// Held for reading by calls, so that none of them has its handle freed.
	lock   sync.RWMutex
	handle *C.alphorn_committees
}

// Close frees the memory of the committees, which the garbage collector knows nothing of, at once and not when they are
// collected. It waits for calls that run; later ones fail. It may be called again.
func (c *Committees) Close() {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.handle != nil {
		C.alphorn_committees_free(c.handle)
		c.handle = nil
	}
}

// NewCommittees makes committees of the given sizes of keys that stand one after the other in their order. With
// proofs of possession these are verified; without (nil), they must have been before: a key that was never proven
// lets its owner forge collections.
func NewCommittees(keys, proofs []byte, sizes ...int) (*Committees, error) {
	count := len(keys) / PublicKeyBytes
	if err := sized("keys", keys, count*PublicKeyBytes); err != nil {
		return nil, err
	}
	if proofs != nil {
		if err := sized("proofs of possession", proofs, count*SignatureBytes); err != nil {
			return nil, err
		}
	}
	context, err := threads()
	if err != nil {
		return nil, err
	}
	var e C.alphorn_error
	var registry *C.alphorn_bls_registry
	if proofs == nil {
		registry = C.alphorn_bls_registry_proven(context, at(keys), C.size_t(count), &e)
	} else {
		registry = C.alphorn_bls_registry_new(context, at(keys), at(proofs), C.size_t(count), &e)
	}
	if registry == nil {
		return nil, failure(&e)
	}
	defer C.alphorn_bls_registry_free(registry)
	lengths := make([]C.size_t, len(sizes)+1)
	for i, size := range sizes {
		lengths[i] = C.size_t(size)
	}
	handle := C.alphorn_committees_new(registry, nil, 0, &lengths[0], C.size_t(len(sizes)), &e)
	if handle == nil {
		return nil, failure(&e)
	}
	committees := &Committees{handle: handle}
	runtime.SetFinalizer(committees, (*Committees).Close)
	return committees, nil
}

// A Collection says who of a committee signed what, and has the sum of their signatures.
type Collection struct {
	Committee int
	// Signers are one to four planes of bits, as in the header's alphorn_collection.
	Signers, Message, Signature []byte
}

// Verify verifies collections in one test: for each an index of Verdicts, and an error unless all hold. Where the
// call itself fails there are no verdicts.
func (c *Committees) Verify(collections ...Collection) ([]byte, error) {
	if len(collections) == 0 {
		return nil, nil
	}
	count := len(collections)
	if count > collectionsMax {
		message := fmt.Sprintf("%d collections, at most %d in a call", count, collectionsMax)
		return nil, &Error{C.ALPHORN_ERROR_ARGUMENT, message}
	}
	// C must not be given Go's memory through a pointer in Go's memory, so all of it is copied.
	room := C.calloc(C.size_t(count), C.sizeof_alphorn_collection)
	if room == nil {
		return nil, &Error{C.ALPHORN_ERROR_INTERNAL, "no memory"}
	}
	items := (*[collectionsMax]C.alphorn_collection)(room)
	defer C.free(unsafe.Pointer(items))
	copied := func(bytes []byte) *C.uint8_t { return (*C.uint8_t)(C.CBytes(bytes)) }
	for i, collection := range collections {
		if err := sized("signature", collection.Signature, SignatureBytes); err != nil {
			return nil, err
		}
		item := &items[i]
		item.committee = C.size_t(collection.Committee)
		item.signers, item.signers_len = copied(collection.Signers), C.size_t(len(collection.Signers))
		defer C.free(unsafe.Pointer(item.signers))
		item.message, item.message_len = copied(collection.Message), C.size_t(len(collection.Message))
		defer C.free(unsafe.Pointer(item.message))
		item.signature = copied(collection.Signature)
		defer C.free(unsafe.Pointer(item.signature))
	}
	var e C.alphorn_error
	verdicts := make([]byte, count)
	c.lock.RLock()
	defer c.lock.RUnlock()
	C.alphorn_committees_verify(c.handle, &items[0], C.size_t(count), at(verdicts), &e)
	if e.status != C.ALPHORN_ERROR_INVALID {
		// Where the call failed there is no verdict, and 0 would be "valid".
		return given(verdicts, &e)
	}
	return verdicts, failure(&e)
}

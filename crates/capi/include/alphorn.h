// alphorn: BLS and XMSS votes of whole committees, proofs of them, coded broadcast.
//
// Made from crates/capi/src/border: do not change it here.
//
// Pointers. An input leads to as many items as its length says, or, where there is none, as its comment
// says; with length 0 it may be NULL. Nobody writes inputs while a call lasts. Outputs belong to the
// caller and overlap no input. NULL where it is not allowed, and buffers that are too small, are
// ALPHORN_ERROR_ARGUMENT, and nothing is written.
//
// Handles (struct pointers without members) are made by functions that return NULL if they fail, and freed
// once by the function that is named there. A handle keeps what it needs: the context, for instance, may
// be freed before what was made with it. Different threads may use one handle at once, except to free it.
//
// Errors. The last argument of a call that can fail is an alphorn_error of the caller's, which the call
// fills, or NULL. There is no state of a thread or of the process, and no call ends the process.


#ifndef ALPHORN_H
#define ALPHORN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes of the text of an error, with the zero at its end.
#define ALPHORN_ERROR_MESSAGE_BYTES 256

// Bytes of a secret key.
#define ALPHORN_BLS_SECRET_KEY_BYTES 32

// Bytes of a public key.
#define ALPHORN_BLS_PUBLIC_KEY_BYTES 48

// Bytes of a signature, of a sum of signatures, and of a proof of possession.
#define ALPHORN_BLS_SIGNATURE_BYTES 96

// The collection holds.
#define ALPHORN_VERDICT_VALID 0

// There is no such committee, or the signers do not fit it.
#define ALPHORN_VERDICT_SIGNERS 1

// The signature does not decode.
#define ALPHORN_VERDICT_DECODE 2

// Nobody signed, or the signers' keys cancel.
#define ALPHORN_VERDICT_KEY_AT_INFINITY 3

// The signature does not hold.
#define ALPHORN_VERDICT_SIGNATURE 4

// Byte-compatible with the production set of the lean consensus specification.
#define ALPHORN_XMSS_PROD 1

// Its test set: of no security.
#define ALPHORN_XMSS_TEST 2

// Smaller signatures, whose proofs are faster.
#define ALPHORN_XMSS_COMPACT 3

// A key for votes: its one-time indices are slots.
#define ALPHORN_PURPOSE_VOTE 0

// A key for duties: its one-time indices are 8 * slot + duty.
#define ALPHORN_PURPOSE_DUTY 1

// Bytes of a message that is signed: a digest.
#define ALPHORN_XMSS_MESSAGE_BYTES 32

// Bytes of the seed of a key.
#define ALPHORN_XMSS_SEED_BYTES 32

// The fast prover, whose proofs can be merged.
#define ALPHORN_PRESET_FAST 1

// A smaller proof for four times the work; it cannot be merged.
#define ALPHORN_PRESET_SMALL 2

// Random linear combinations, which relays recode.
#define ALPHORN_CODE_RLNC 1

// Reed-Solomon shards, which relays forward.
#define ALPHORN_CODE_REED_SOLOMON 2

// Bytes of a header.
#define ALPHORN_BROADCAST_HEADER_BYTES 100

// Bytes of a payload at most.
#define ALPHORN_PAYLOAD_BYTES_MAX 33554432

// What became of a call. The numbers never change.
typedef enum alphorn_status {
  // It is done, and what was verified holds.
  ALPHORN_OK = 0,
  // An argument is NULL or out of its range: a mistake of the caller.
  ALPHORN_ERROR_ARGUMENT = 1,
  // Bytes are no key, signature, proof, header or piece.
  ALPHORN_ERROR_DECODE = 2,
  // A signature or proof does not hold.
  ALPHORN_ERROR_INVALID = 3,
  // The store of marks gives out no permit, or the key cannot sign there.
  ALPHORN_ERROR_REFUSED = 4,
  // The callback asked the computation to end.
  ALPHORN_ERROR_STOPPED = 5,
  // The file system refused.
  ALPHORN_ERROR_IO = 6,
  // Pieces of a broadcast are missing.
  ALPHORN_ERROR_INCOMPLETE = 7,
  // A fault of this library; please report it.
  ALPHORN_ERROR_INTERNAL = 8,
} alphorn_status;

// The public keys of all validators, in the order of their indices.
typedef struct alphorn_bls_registry alphorn_bls_registry;

// One broadcast, at its source or at a node that receives and relays it. Calls of several threads wait for
// each other.
typedef struct alphorn_broadcast alphorn_broadcast;

// Bytes that the library allocated. They are wiped when they are freed.
typedef struct alphorn_bytes alphorn_bytes;

// The committees of an epoch: keys in committee order, ready to be summed.
typedef struct alphorn_committees alphorn_committees;

// Threads, kernels and a secret that weighs what is verified together: what everything runs on.
typedef struct alphorn_context alphorn_context;

// The keys of a committee, with the commitment to them that provers and verifiers share.
typedef struct alphorn_members alphorn_members;

// A secret key with the resident part of its tree.
typedef struct alphorn_xmss_key alphorn_xmss_key;

// The marks of one key in a file, which no other process can have open. A process that is forked can use none of its
// parent's: it is refused.
typedef struct alphorn_xmss_marks alphorn_xmss_marks;

// The right to make one signature.
typedef struct alphorn_xmss_permit alphorn_xmss_permit;

// What went wrong, in a structure of the caller's.
typedef struct alphorn_error {
  // ALPHORN_OK if nothing did.
  enum alphorn_status status;
  // Ends with a zero; cut at a character's border if it is too long. Empty if nothing went wrong.
  char message[ALPHORN_ERROR_MESSAGE_BYTES];
} alphorn_error;

// Who of a committee signed what, and the sum of their signatures.
typedef struct alphorn_collection {
  // Number of the committee.
  size_t committee;
  // One to four planes of (n + 7) / 8 bytes for a committee of n: bit i % 8 of byte i / 8 of plane j is
  // bit j of how often position i signed. One plane is a plain bitfield.
  const uint8_t *signers;
  // Bytes of all planes.
  size_t signers_len;
  // What all of them signed.
  const uint8_t *message;
  // Its bytes.
  size_t message_len;
  // The sum: 96 bytes.
  const uint8_t *signature;
} alphorn_collection;

// Who watches a long computation.
typedef struct alphorn_watch {
  // Given to the callbacks as it is.
  void *user;
  // Not 0 if the computation is to end; once so, always so. NULL for never. Called at least every 10 ms
  // by any thread, by several at once: it must be quick.
  int (*stopped)(void *user);
  // A step begins; its name ends with a zero and lives as long as the call. NULL for nobody. Called by
  // one thread at a time, not always the same.
  void (*step)(void *user, const char *name);
} alphorn_watch;

// A signature with what it is said to sign.
typedef struct alphorn_xmss_vote {
  // Whose: alphorn_xmss_public_key_bytes of the set.
  const uint8_t *public_key;
  // The one-time index: the slot, for votes.
  uint32_t index;
  // 32 bytes.
  const uint8_t *message;
  // alphorn_xmss_signature_bytes of the set.
  const uint8_t *signature;
} alphorn_xmss_vote;

// A proof with the members who signed, as it is merged.
typedef struct alphorn_proof_part {
  // (n + 7) / 8 bytes for a committee of n: bit i % 8 of byte i / 8 is set if position i signed.
  const uint8_t *signers;
  // Bytes of the signers.
  size_t signers_len;
  // The proof.
  const uint8_t *proof;
  // Its bytes.
  size_t proof_len;
} alphorn_proof_part;

// Which payload of whom a broadcast carries; its meaning belongs to the caller's protocol.
typedef struct alphorn_subject {
  // Slot.
  uint64_t slot;
  // Index of the source.
  uint32_t source;
  // Which of the source's payloads of that kind.
  uint32_t index;
  // Kind of payload.
  uint8_t kind;
} alphorn_subject;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The first byte; NULL for NULL. Valid until the bytes are freed.
//
// # Safety
// `bytes`: a handle or NULL.
const uint8_t *alphorn_bytes_data(const struct alphorn_bytes *bytes);

// How many bytes they are; 0 for NULL.
//
// # Safety
// `bytes`: a handle or NULL.
size_t alphorn_bytes_len(const struct alphorn_bytes *bytes);

// Wipes and frees them; nothing for NULL.
//
// # Safety
// `bytes`: a handle, which is of no use afterwards, or NULL.
void alphorn_bytes_free(struct alphorn_bytes *bytes);

// The version of the library, ends with a zero. Never freed.
const char *alphorn_version(void);

// Makes a context of so many threads, 0 for as many as there are cores, 1 for the caller's own:
// one is enough for a process. Free it with alphorn_context_free; objects that were made with it go on.
//
// # Safety
// `error`: NULL, or room for one.
struct alphorn_context *alphorn_context_new(size_t threads,
                                            struct alphorn_error *error);

// Frees it; nothing for NULL.
//
// # Safety
// `context`: a handle, which is of no use afterwards, or NULL.
void alphorn_context_free(struct alphorn_context *context);

// Makes the secret key of secret keying material of at least 32 bytes, as the IETF draft has it. The
// caller wipes the key when it is no longer needed.
//
// # Safety
// `material`: `material_len` bytes. `secret_key`: room for 32. `error`: NULL, or room for one.
enum alphorn_status alphorn_bls_key_gen(const uint8_t *material,
                                        size_t material_len,
                                        uint8_t *secret_key,
                                        struct alphorn_error *error);

// Writes the secret key of a validator that everyone can compute: for tests and devnets.
//
// # Safety
// `secret_key`: room for 32 bytes. `error`: NULL, or room for one.
enum alphorn_status alphorn_bls_interop_secret_key(uint64_t validator,
                                                   uint8_t *secret_key,
                                                   struct alphorn_error *error);

// Writes the public key of a secret key.
//
// # Safety
// `secret_key`: 32 bytes. `public_key`: room for 48. `error`: NULL, or room for one.
enum alphorn_status alphorn_bls_public_key(const uint8_t *secret_key,
                                           uint8_t *public_key,
                                           struct alphorn_error *error);

// Signs a message of any length.
//
// # Safety
// `secret_key`: 32 bytes. `message`: `message_len` bytes. `signature`: room for 96. `error`: NULL, or
// room for one.
enum alphorn_status alphorn_bls_sign(const uint8_t *secret_key,
                                     const uint8_t *message,
                                     size_t message_len,
                                     uint8_t *signature,
                                     struct alphorn_error *error);

// ALPHORN_OK if the signature holds, ALPHORN_ERROR_INVALID if not, or if key or signature do not decode.
//
// # Safety
// `public_key`: 48 bytes. `message`: `message_len` bytes. `signature`: 96 bytes. `error`: NULL, or room
// for one.
enum alphorn_status alphorn_bls_verify(const uint8_t *public_key,
                                       const uint8_t *message,
                                       size_t message_len,
                                       const uint8_t *signature,
                                       struct alphorn_error *error);

// Makes the proof of possession of a secret key.
//
// # Safety
// `secret_key`: 32 bytes. `proof`: room for 96. `error`: NULL, or room for one.
enum alphorn_status alphorn_bls_pop_prove(const uint8_t *secret_key,
                                          uint8_t *proof,
                                          struct alphorn_error *error);

// ALPHORN_OK if the proof of possession holds, ALPHORN_ERROR_INVALID if not.
//
// # Safety
// `public_key`: 48 bytes. `proof`: 96 bytes. `error`: NULL, or room for one.
enum alphorn_status alphorn_bls_pop_verify(const uint8_t *public_key,
                                           const uint8_t *proof,
                                           struct alphorn_error *error);

// Sums signatures, one at least.
//
// # Safety
// `signatures`: `count` times 96 bytes. `sum`: room for 96. `error`: NULL, or room for one.
enum alphorn_status alphorn_bls_aggregate(const uint8_t *signatures,
                                          size_t count,
                                          uint8_t *sum,
                                          struct alphorn_error *error);

// Decodes every key, refuses duplicates, and verifies every proof of possession. Free it with
// alphorn_bls_registry_free.
//
// # Safety
// `context`: a handle. `keys`: `count` times 48 bytes. `proofs`: `count` times 96 bytes. `error`: NULL,
// or room for one.
struct alphorn_bls_registry *alphorn_bls_registry_new(const struct alphorn_context *context,
                                                      const uint8_t *keys,
                                                      const uint8_t *proofs,
                                                      size_t count,
                                                      struct alphorn_error *error);

// The same of keys whose proofs of possession were verified before: those of a chain's deposits, or of a
// registry that was saved. A key that was never proven lets its owner forge collections.
//
// # Safety
// `context`: a handle. `keys`: `count` times 48 bytes. `error`: NULL, or room for one.
struct alphorn_bls_registry *alphorn_bls_registry_proven(const struct alphorn_context *context,
                                                         const uint8_t *keys,
                                                         size_t count,
                                                         struct alphorn_error *error);

// Writes SHA-256 of the concatenated keys.
//
// # Safety
// `registry`: a handle. `digest`: room for 32 bytes. `error`: NULL, or room for one.
enum alphorn_status alphorn_bls_registry_digest(const struct alphorn_bls_registry *registry,
                                                uint8_t *digest,
                                                struct alphorn_error *error);

// Frees it; nothing for NULL. Committees that were made of it go on.
//
// # Safety
// `registry`: a handle, which is of no use afterwards, or NULL.
void alphorn_bls_registry_free(struct alphorn_bls_registry *registry);

// Makes committees of the given sizes. `members` are indices of the registry, committee after committee;
// with NULL and 0 the committees are the registry's keys in their order. Free them with
// alphorn_committees_free.
//
// # Safety
// `registry`: a handle. `members`: `members_len` items, or NULL. `sizes`: `count` items. `error`: NULL,
// or room for one.
struct alphorn_committees *alphorn_committees_new(const struct alphorn_bls_registry *registry,
                                                  const uint32_t *members,
                                                  size_t members_len,
                                                  const size_t *sizes,
                                                  size_t count,
                                                  struct alphorn_error *error);

// Members of a committee; 0 if there is no such committee.
//
// # Safety
// `committees`: a handle, or NULL.
size_t alphorn_committees_size(const struct alphorn_committees *committees, size_t committee);

// Sums the signers' keys, each as often as it signed: the sum of their signatures holds under that key.
//
// # Safety
// `committees`: a handle. `signers`: `signers_len` bytes, as in alphorn_collection. `key`: room for 48
// bytes. `error`: NULL, or room for one.
enum alphorn_status alphorn_committees_sum(const struct alphorn_committees *committees,
                                           size_t committee,
                                           const uint8_t *signers,
                                           size_t signers_len,
                                           uint8_t *key,
                                           struct alphorn_error *error);

// Verifies collections in one test, and looks for the bad ones only if it fails. ALPHORN_OK if all hold,
// ALPHORN_ERROR_INVALID if one does not: `verdicts` has an ALPHORN_VERDICT for each then. Other errors
// leave it as it was.
//
// # Safety
// `committees`: a handle. `collections`: `count` items, whose pointers lead to as many bytes as they say.
// `verdicts`: NULL, or room for `count` bytes. `error`: NULL, or room for one.
enum alphorn_status alphorn_committees_verify(const struct alphorn_committees *committees,
                                              const struct alphorn_collection *collections,
                                              size_t count,
                                              uint8_t *verdicts,
                                              struct alphorn_error *error);

// Frees them; nothing for NULL.
//
// # Safety
// `committees`: a handle, which is of no use afterwards, or NULL.
void alphorn_committees_free(struct alphorn_committees *committees);

// Bytes of a signature of a set; 0 if there is no such set.
size_t alphorn_xmss_signature_bytes(uint32_t set);

// Bytes of a public key of a set; 0 if there is no such set.
size_t alphorn_xmss_public_key_bytes(uint32_t set);

// Makes the key of a secret seed for the one-time indices start to end - 1; its time grows with their
// number. `watch` may end it. One seed is one key, of one purpose and one range: never make one for votes
// and one for duties from the same seed, they would use one index twice. Free it with
// alphorn_xmss_key_free.
//
// # Safety
// `context`: a handle. `seed`: 32 bytes. `watch`: NULL, or one that stays as it is. `error`: NULL, or
// room for one.
struct alphorn_xmss_key *alphorn_xmss_key_generate(const struct alphorn_context *context,
                                                   uint32_t set,
                                                   uint32_t purpose,
                                                   const uint8_t *seed,
                                                   uint64_t start,
                                                   uint64_t end,
                                                   const struct alphorn_watch *watch,
                                                   struct alphorn_error *error);

// Makes the key of a validator that everyone can compute: for tests and devnets.
//
// # Safety
// `context`: a handle. `error`: NULL, or room for one.
struct alphorn_xmss_key *alphorn_xmss_key_interop(const struct alphorn_context *context,
                                                  uint32_t set,
                                                  uint32_t purpose,
                                                  uint32_t validator,
                                                  uint64_t start,
                                                  uint64_t end,
                                                  struct alphorn_error *error);

// The key of its two files, as alphorn_xmss_key_secret_file and alphorn_xmss_key_tree_file give them. A
// tree file that was changed gives another public key: compare it with the one that is known.
//
// # Safety
// `context`: a handle. `secret`: `secret_len` bytes. `tree`: `tree_len` bytes. `error`: NULL, or room for
// one.
struct alphorn_xmss_key *alphorn_xmss_key_from_files(const struct alphorn_context *context,
                                                     const uint8_t *secret,
                                                     size_t secret_len,
                                                     const uint8_t *tree,
                                                     size_t tree_len,
                                                     struct alphorn_error *error);

// The content of the secret file: anyone who reads it can sign. Free it with alphorn_bytes_free.
//
// # Safety
// `key`: a handle. `error`: NULL, or room for one.
struct alphorn_bytes *alphorn_xmss_key_secret_file(const struct alphorn_xmss_key *key,
                                                   struct alphorn_error *error);

// The content of the tree file, which is no secret. Free it with alphorn_bytes_free.
//
// # Safety
// `key`: a handle. `error`: NULL, or room for one.
struct alphorn_bytes *alphorn_xmss_key_tree_file(const struct alphorn_xmss_key *key,
                                                 struct alphorn_error *error);

// Writes the public key.
//
// # Safety
// `key`: a handle. `public_key`: room for `capacity` bytes, at least alphorn_xmss_public_key_bytes of its
// set. `error`: NULL, or room for one.
enum alphorn_status alphorn_xmss_key_public_key(const struct alphorn_xmss_key *key,
                                                uint8_t *public_key,
                                                size_t capacity,
                                                struct alphorn_error *error);

// Wipes and frees it; nothing for NULL.
//
// # Safety
// `key`: a handle, which is of no use afterwards, or NULL.
void alphorn_xmss_key_free(struct alphorn_xmss_key *key);

// Makes the file of a key that signs nothing below slot `floor`; a key that was restored from a backup
// needs a floor above every slot in which it ever signed. `state` is a folder of this user for a second
// mark, by which a copy of the first is found out; with NULL nothing protects from copies. Free it with
// alphorn_xmss_marks_free: until then no other process can open the file.
//
// # Safety
// `path`, `state`: strings of UTF-8 that end with a zero; `state` may be NULL. `key`: a handle. `error`:
// NULL, or room for one.
struct alphorn_xmss_marks *alphorn_xmss_marks_create(const char *path,
                                                     const char *state,
                                                     const struct alphorn_xmss_key *key,
                                                     uint64_t floor,
                                                     struct alphorn_error *error);

// Opens the file of a key, and its second mark in the folder `state`. Free it with
// alphorn_xmss_marks_free.
//
// # Safety
// As for alphorn_xmss_marks_create.
struct alphorn_xmss_marks *alphorn_xmss_marks_open(const char *path,
                                                   const char *state,
                                                   const struct alphorn_xmss_key *key,
                                                   struct alphorn_error *error);

// Writes the least slot that is free in a role: 0 for votes, 1 to 7 for duties.
//
// # Safety
// `marks`: a handle. `slot`: room for one. `error`: NULL, or room for one.
enum alphorn_status alphorn_xmss_marks_next(const struct alphorn_xmss_marks *marks,
                                            uint8_t role,
                                            uint64_t *slot,
                                            struct alphorn_error *error);

// The permit to sign a message in a slot, once the mark is on the disk: slots ascend, and each is given
// out once (the last one again for the same message). Use it with alphorn_xmss_sign, or free it with
// alphorn_xmss_permit_free: its slot is spent either way.
//
// # Safety
// `marks`: a handle. `message`: 32 bytes. `error`: NULL, or room for one.
struct alphorn_xmss_permit *alphorn_xmss_marks_reserve(const struct alphorn_xmss_marks *marks,
                                                       uint64_t slot,
                                                       uint8_t role,
                                                       const uint8_t *message,
                                                       struct alphorn_error *error);

// Closes the file; nothing for NULL. Permits that it gave out go on.
//
// # Safety
// `marks`: a handle, which is of no use afterwards, or NULL.
void alphorn_xmss_marks_free(struct alphorn_xmss_marks *marks);

// Gives a permit up; nothing for NULL.
//
// # Safety
// `permit`: a handle, which is of no use afterwards, or NULL.
void alphorn_xmss_permit_free(struct alphorn_xmss_permit *permit);

// Makes the one signature that the permit allows, and frees the permit, whatever comes of it. Room for
// the signature is looked at before the key is used.
//
// # Safety
// `key`: a handle. `permit`: a handle, which is of no use afterwards, or NULL. `signature`: room for
// `capacity` bytes, at least alphorn_xmss_signature_bytes of the key's set. `error`: NULL, or room for
// one.
enum alphorn_status alphorn_xmss_sign(const struct alphorn_xmss_key *key,
                                      struct alphorn_xmss_permit *permit,
                                      uint8_t *signature,
                                      size_t capacity,
                                      struct alphorn_error *error);

// Verifies signatures together. ALPHORN_OK if all hold, ALPHORN_ERROR_INVALID if one does not:
// `verdicts` has 0 for each that holds and 1 for each that does not then.
//
// # Safety
// `context`: a handle. `votes`: `count` items, whose pointers lead to as many bytes as the set says.
// `verdicts`: NULL, or room for `count` bytes. `error`: NULL, or room for one.
enum alphorn_status alphorn_xmss_verify(const struct alphorn_context *context,
                                        uint32_t set,
                                        const struct alphorn_xmss_vote *votes,
                                        size_t count,
                                        uint8_t *verdicts,
                                        struct alphorn_error *error);

// The committee of these XMSS keys, in the order of their positions. `number` tells the committees of an
// epoch apart: a proof for one is none for another. Free it with alphorn_members_free.
//
// # Safety
// `context`: a handle. `keys`: `count` times alphorn_xmss_public_key_bytes of the set. `error`: NULL, or
// room for one.
struct alphorn_members *alphorn_members_new(const struct alphorn_context *context,
                                            uint32_t set,
                                            uint32_t preset,
                                            const uint8_t *keys,
                                            size_t count,
                                            uint32_t number,
                                            struct alphorn_error *error);

// Signatures that one proof takes at most; 0 for NULL.
//
// # Safety
// `members`: a handle, or NULL.
size_t alphorn_members_signatures_max(const struct alphorn_members *members);

// Signatures at most of a proof that can be merged; 0 for NULL.
//
// # Safety
// `members`: a handle, or NULL.
size_t alphorn_members_mergeable_max(const struct alphorn_members *members);

// Bytes at most of a proof of so many signatures, or of a merge for 0; 0 for NULL.
//
// # Safety
// `members`: a handle, or NULL.
size_t alphorn_members_proof_bytes_max(const struct alphorn_members *members, size_t signatures);

// Proves that members signed a message in a slot. Positions ascend; the signatures are theirs, one after
// the other. Free the proof with alphorn_bytes_free.
//
// # Safety
// `members`: a handle. `message`: 32 bytes. `positions`: `count` items. `signatures`: `count` times
// alphorn_xmss_signature_bytes of the members' set. `watch`: NULL, or
// one that stays as it is. `error`: NULL, or room for one.
struct alphorn_bytes *alphorn_prove(const struct alphorn_members *members,
                                    uint32_t slot,
                                    const uint8_t *message,
                                    const uint32_t *positions,
                                    const uint8_t *signatures,
                                    size_t count,
                                    const struct alphorn_watch *watch,
                                    struct alphorn_error *error);

// Merges proofs of one slot and message to one proof of all their signers, who may overlap. The first
// merge of a process takes some seconds more. Free the proof with alphorn_bytes_free.
//
// # Safety
// `members`: a handle. `message`: 32 bytes. `parts`: `count` items, whose pointers lead to as many bytes
// as they say. `watch`: NULL, or one that stays as it is. `error`: NULL, or room for one.
struct alphorn_bytes *alphorn_merge(const struct alphorn_members *members,
                                    uint32_t slot,
                                    const uint8_t *message,
                                    const struct alphorn_proof_part *parts,
                                    size_t count,
                                    const struct alphorn_watch *watch,
                                    struct alphorn_error *error);

// ALPHORN_OK if the proof, merged or not, shows that exactly the signers signed the message in the slot.
//
// # Safety
// `members`: a handle. `message`: 32 bytes. `signers`: `signers_len` bytes. `proof`: `proof_len` bytes.
// `error`: NULL, or room for one.
enum alphorn_status alphorn_proof_verify(const struct alphorn_members *members,
                                         uint32_t slot,
                                         const uint8_t *message,
                                         const uint8_t *signers,
                                         size_t signers_len,
                                         const uint8_t *proof,
                                         size_t proof_len,
                                         struct alphorn_error *error);

// Frees them; nothing for NULL.
//
// # Safety
// `members`: a handle, which is of no use afterwards, or NULL.
void alphorn_members_free(struct alphorn_members *members);

// Cuts a payload of 1 to ALPHORN_PAYLOAD_BYTES_MAX bytes into pieces and commits to it; the source signs
// what alphorn_broadcast_signing_root says. Free it with alphorn_broadcast_free.
//
// # Safety
// `context`: a handle. `subject`: one. `payload`: `payload_len` bytes. `error`: NULL, or room for one.
struct alphorn_broadcast *alphorn_broadcast_publish(const struct alphorn_context *context,
                                                    uint32_t code,
                                                    const struct alphorn_subject *subject,
                                                    const uint8_t *payload,
                                                    size_t payload_len,
                                                    struct alphorn_error *error);

// Begins to receive what a header announces. Headers of payloads above `payload_bytes_max` are refused.
// Nothing here knows the source's key: verify its signature of alphorn_broadcast_signing_root before
// anything is added, and free the handle if it is none. Free it with alphorn_broadcast_free.
//
// # Safety
// `context`: a handle. `header`: `header_len` bytes. `error`: NULL, or room for one.
struct alphorn_broadcast *alphorn_broadcast_receive(const struct alphorn_context *context,
                                                    const uint8_t *header,
                                                    size_t header_len,
                                                    uint32_t payload_bytes_max,
                                                    struct alphorn_error *error);

// Writes the header.
//
// # Safety
// `broadcast`: a handle. `header`: room for ALPHORN_BROADCAST_HEADER_BYTES. `error`: NULL, or room for
// one.
enum alphorn_status alphorn_broadcast_header(const struct alphorn_broadcast *broadcast,
                                             uint8_t *header,
                                             struct alphorn_error *error);

// Writes what the source signs: 32 bytes, SHA-256 over the 21 bytes "alphorn/broadcast/v1" with a zero behind
// them, the network's identifier (32 bytes) and the header (100).
//
// # Safety
// `broadcast`: a handle. `network`: 32 bytes. `root`: room for 32. `error`: NULL, or room for one.
enum alphorn_status alphorn_broadcast_signing_root(const struct alphorn_broadcast *broadcast,
                                                   const uint8_t *network,
                                                   uint8_t *root,
                                                   struct alphorn_error *error);

// Lists of commitments, which travel with the header: one for each generation of random linear combinations,
// none for shards and for NULL.
//
// # Safety
// `broadcast`: a handle, or NULL.
uint16_t alphorn_broadcast_commitment_lists(const struct alphorn_broadcast *broadcast);

// The commitments of a generation. Free it with alphorn_bytes_free.
//
// # Safety
// `broadcast`: a handle. `error`: NULL, or room for one.
struct alphorn_bytes *alphorn_broadcast_commitments(const struct alphorn_broadcast *broadcast,
                                                    uint16_t generation,
                                                    struct alphorn_error *error);

// Takes the commitments of a generation and checks them against the header.
//
// # Safety
// `broadcast`: a handle. `commitments`: `commitments_len` bytes. `error`: NULL, or room for one.
enum alphorn_status alphorn_broadcast_add_commitments(struct alphorn_broadcast *broadcast,
                                                      uint16_t generation,
                                                      const uint8_t *commitments,
                                                      size_t commitments_len,
                                                      struct alphorn_error *error);

// Different pieces to ask alphorn_broadcast_piece for: generations, of which each piece is a fresh
// combination, or shards. 0 for NULL.
//
// # Safety
// `broadcast`: a handle, or NULL.
uint16_t alphorn_broadcast_selectors(const struct alphorn_broadcast *broadcast);

// A piece to send: a fresh combination of a generation, or the shard with that number. NULL with
// ALPHORN_ERROR_INCOMPLETE if nothing of it is here. Free it with alphorn_bytes_free.
//
// # Safety
// `broadcast`: a handle. `error`: NULL, or room for one.
struct alphorn_bytes *alphorn_broadcast_piece(struct alphorn_broadcast *broadcast,
                                              uint16_t selector,
                                              struct alphorn_error *error);

// Verifies a piece and keeps it if it adds something; `useful` says whether it did.
//
// # Safety
// `broadcast`: a handle. `piece`: `piece_len` bytes. `useful`: NULL, or room for one. `error`: NULL, or
// room for one.
enum alphorn_status alphorn_broadcast_add(struct alphorn_broadcast *broadcast,
                                          const uint8_t *piece,
                                          size_t piece_len,
                                          bool *useful,
                                          struct alphorn_error *error);

// Whether the payload can be decoded; false for NULL.
//
// # Safety
// `broadcast`: a handle, or NULL.
bool alphorn_broadcast_is_full(const struct alphorn_broadcast *broadcast);

// Bytes of the payload, as the header says; 0 for NULL.
//
// # Safety
// `broadcast`: a handle, or NULL.
size_t alphorn_broadcast_payload_bytes(const struct alphorn_broadcast *broadcast);

// Writes the payload, after all checks. From then on this node can send whatever the source can.
//
// # Safety
// `broadcast`: a handle. `payload`: room for `capacity` bytes, at least alphorn_broadcast_payload_bytes.
// `error`: NULL, or room for one.
enum alphorn_status alphorn_broadcast_payload(struct alphorn_broadcast *broadcast,
                                              uint8_t *payload,
                                              size_t capacity,
                                              struct alphorn_error *error);

// Frees it; nothing for NULL.
//
// # Safety
// `broadcast`: a handle, which is of no use afterwards, or NULL.
void alphorn_broadcast_free(struct alphorn_broadcast *broadcast);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ALPHORN_H */

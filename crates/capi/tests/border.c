// What the border promises to C: NULL, lengths and buffers are looked at, handles outlive what made them,
// callbacks stop a computation, and nothing leaks (it runs under valgrind). The argument is an empty folder;
// with a second one, proofs are made too.

#define _POSIX_C_SOURCE 200809L

#include <alphorn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static alphorn_error error;
static int failures;

static void check(int holds, const char *text, int line) {
    if (!holds) {
        printf("line %d: %s (%d: %s)\n", line, text, (int)error.status, error.message);
        failures++;
    }
}
#define CHECK(condition) check((condition), #condition, __LINE__)
#define REFUSED(call) CHECK((call) == ALPHORN_ERROR_ARGUMENT && error.status == ALPHORN_ERROR_ARGUMENT)
#define NOTHING(call, code) CHECK((call) == NULL && error.status == (code) && error.message[0] != 0)

enum { MEMBERS = 9 };
static uint8_t keys[MEMBERS][48], proofs[MEMBERS][96], votes[MEMBERS][96], sum[96];
static const uint8_t message[32] = "head";

// A forked process that succeeds kills itself: its exit code would be that of the leaks which valgrind finds in the
// midst of the work.
static void end_child(int succeeded) {
    if (succeeded) kill(getpid(), SIGKILL);
    _exit(1);
}

static int child_succeeded(pid_t child) {
    int ended = 0;
    return waitpid(child, &ended, 0) == child && WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL;
}

static void *verify_on_a_thread(void *committees) {
    uint8_t all[2] = {0xff, 1};
    alphorn_collection item = {0, all, 2, message, 4, sum};
    for (int i = 0; i < 3; i++) {
        if (alphorn_committees_verify(committees, &item, 1, NULL, NULL) != ALPHORN_OK) return "failed";
    }
    return NULL;
}

static void bls(void) {
    uint8_t secret[32], other[96];
    REFUSED(alphorn_bls_key_gen(NULL, 32, secret, &error));
    REFUSED(alphorn_bls_key_gen(message, 31, secret, &error));
    REFUSED(alphorn_bls_key_gen(message, 32, NULL, &error));
    CHECK(strcmp(error.message, "secret_key is NULL") == 0);
    memset(secret, 0, 32);
    CHECK(alphorn_bls_public_key(secret, keys[0], &error) == ALPHORN_ERROR_DECODE);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK(alphorn_bls_interop_secret_key((uint64_t)i, secret, &error) == ALPHORN_OK);
        CHECK(alphorn_bls_public_key(secret, keys[i], &error) == ALPHORN_OK && error.message[0] == 0);
        CHECK(alphorn_bls_pop_prove(secret, proofs[i], &error) == ALPHORN_OK);
        CHECK(alphorn_bls_sign(secret, message, 4, votes[i], NULL) == ALPHORN_OK);
    }
    CHECK(alphorn_bls_verify(keys[1], message, 4, votes[1], &error) == ALPHORN_OK);
    CHECK(alphorn_bls_verify(keys[1], message, 5, votes[1], &error) == ALPHORN_ERROR_INVALID);
    CHECK(alphorn_bls_pop_verify(keys[1], proofs[1], &error) == ALPHORN_OK);
    CHECK(alphorn_bls_pop_verify(keys[1], proofs[2], &error) == ALPHORN_ERROR_INVALID);
    CHECK(alphorn_bls_sign(secret, NULL, 0, other, &error) == ALPHORN_OK);
    CHECK(alphorn_bls_verify(keys[MEMBERS - 1], NULL, 0, other, &error) == ALPHORN_OK);
    REFUSED(alphorn_bls_aggregate(votes[0], 0, other, &error));
    REFUSED(alphorn_bls_aggregate(votes[0], SIZE_MAX / 3, other, &error));
    REFUSED(alphorn_bls_aggregate(votes[0], SIZE_MAX / 96, other, &error));
    CHECK(alphorn_bls_aggregate(votes[0], MEMBERS, sum, &error) == ALPHORN_OK);
}

static void committees(alphorn_context *context) {
    NOTHING(alphorn_bls_registry_new(NULL, keys[0], proofs[0], MEMBERS, &error), ALPHORN_ERROR_ARGUMENT);
    NOTHING(alphorn_bls_registry_new(context, keys[0], NULL, MEMBERS, &error), ALPHORN_ERROR_ARGUMENT);
    NOTHING(alphorn_bls_registry_new(context, keys[0], votes[0], MEMBERS, &error), ALPHORN_ERROR_INVALID);
    NOTHING(alphorn_bls_registry_proven(context, votes[0], 2, &error), ALPHORN_ERROR_DECODE);
    alphorn_bls_registry *registry =
        alphorn_bls_registry_new(context, keys[0], proofs[0], MEMBERS, &error);
    uint8_t digest[32] = {0}, zero[32] = {0}, key[48];
    CHECK(alphorn_bls_registry_digest(registry, digest, &error) == ALPHORN_OK);
    CHECK(memcmp(digest, zero, 32) != 0);
    size_t size = MEMBERS, wrong = MEMBERS + 1, two[2] = {4, 5};
    uint32_t members[MEMBERS] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    NOTHING(alphorn_committees_new(registry, NULL, 0, &wrong, 1, &error), ALPHORN_ERROR_ARGUMENT);
    NOTHING(alphorn_committees_new(registry, NULL, 9, &size, 1, &error), ALPHORN_ERROR_ARGUMENT);
    members[8] = 9;
    NOTHING(alphorn_committees_new(registry, members, 9, two, 2, &error), ALPHORN_ERROR_ARGUMENT);
    members[8] = 8;
    alphorn_committees *halves = alphorn_committees_new(registry, members, 9, two, 2, &error);
    CHECK(alphorn_committees_size(halves, 1) == 5 && alphorn_committees_size(halves, 2) == 0);
    alphorn_committees_free(halves);
    alphorn_committees *all = alphorn_committees_new(registry, NULL, 0, &size, 1, &error);
    alphorn_bls_registry_free(registry);
    alphorn_context_free(context);

    uint8_t signers[2] = {0xff, 1}, long_signers[9] = {1};
    alphorn_collection items[3] = {{0, signers, 2, message, 4, sum},
                                   {0, long_signers, 9, message, 4, sum},
                                   {7, signers, 2, message, 4, sum}};
    uint8_t verdicts[3] = {9, 9, 9};
    CHECK(alphorn_committees_verify(all, items, 1, verdicts, &error) == ALPHORN_OK && verdicts[0] == 0);
    CHECK(alphorn_committees_verify(all, items, 3, verdicts, &error) == ALPHORN_ERROR_INVALID);
    CHECK(verdicts[0] == 0 && verdicts[1] == ALPHORN_VERDICT_SIGNERS && verdicts[2] == 1);
    CHECK(alphorn_committees_verify(all, NULL, 0, NULL, &error) == ALPHORN_OK);
    items[0].signature = NULL;
    REFUSED(alphorn_committees_verify(all, items, 1, verdicts, &error));
    REFUSED(alphorn_committees_verify(all, (void *)((char *)items + 1), 1, verdicts, &error));
    REFUSED(alphorn_committees_sum(all, 1, signers, 2, key, &error));
    CHECK(alphorn_committees_sum(all, 0, signers, 2, key, &error) == ALPHORN_OK);
    CHECK(alphorn_bls_verify(key, message, 4, sum, &error) == ALPHORN_OK);
    // A forked process has none of the context's threads, and does without.
    pid_t child = fork();
    if (child == 0) {
        alarm(300);
        end_child(verify_on_a_thread(all) == NULL);
    }
    CHECK(child > 0 && child_succeeded(child));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, verify_on_a_thread, all) == 0);
    for (int i = 0; i < 3; i++) {
        void *failed;
        CHECK(pthread_join(threads[i], &failed) == 0 && failed == NULL);
    }
    alphorn_committees_free(all);
}

static int at_once(void *user) {
    (void)user;
    return 1;
}

static void xmss(alphorn_context *context, const char *folder) {
    CHECK(alphorn_xmss_signature_bytes(ALPHORN_XMSS_PROD) == 2536);
    CHECK(alphorn_xmss_public_key_bytes(4) == 0);
    alphorn_watch stop = {NULL, at_once, NULL};
    uint8_t seed[32] = {1}, public_key[52], signature[424], changed[32] = {0};
    const uint32_t set = ALPHORN_XMSS_TEST, role = ALPHORN_PURPOSE_VOTE;
    NOTHING(alphorn_xmss_key_generate(context, set, role, seed, 9, 9, NULL, &error),
            ALPHORN_ERROR_ARGUMENT);
    NOTHING(alphorn_xmss_key_generate(context, set, 2, seed, 0, 9, NULL, &error), ALPHORN_ERROR_ARGUMENT);
    NOTHING(alphorn_xmss_key_generate(context, set, role, seed, 0, 256, &stop, &error),
            ALPHORN_ERROR_STOPPED);
    alphorn_xmss_key *key = alphorn_xmss_key_generate(context, set, role, seed, 0, 16, NULL, &error);
    alphorn_bytes *secret = alphorn_xmss_key_secret_file(key, &error);
    alphorn_bytes *tree = alphorn_xmss_key_tree_file(key, &error);
    alphorn_xmss_key *again =
        alphorn_xmss_key_from_files(context, alphorn_bytes_data(secret), alphorn_bytes_len(secret),
                                    alphorn_bytes_data(tree), alphorn_bytes_len(tree), &error);
    NOTHING(alphorn_xmss_key_from_files(context, alphorn_bytes_data(secret), 20, NULL, 0, &error),
            ALPHORN_ERROR_DECODE);
    alphorn_xmss_key_free(key);
    REFUSED(alphorn_xmss_key_public_key(again, public_key, 51, &error));
    CHECK(strcmp(error.message, "public_key has room for 51 bytes, must have for 52") == 0);
    CHECK(alphorn_xmss_key_public_key(again, public_key, 52, &error) == ALPHORN_OK);

    char path[512];
    snprintf(path, sizeof path, "%s/marks", folder);
    NOTHING(alphorn_xmss_marks_open(path, NULL, again, &error), ALPHORN_ERROR_IO);
    NOTHING(alphorn_xmss_marks_create(NULL, NULL, again, 0, &error), ALPHORN_ERROR_ARGUMENT);
    NOTHING(alphorn_xmss_marks_create("\xff", NULL, again, 0, &error), ALPHORN_ERROR_ARGUMENT);
    alphorn_xmss_marks *marks = alphorn_xmss_marks_create(path, NULL, again, 3, &error);
    uint64_t next = 0;
    CHECK(alphorn_xmss_marks_next(marks, 0, &next, &error) == ALPHORN_OK && next == 3);
    NOTHING(alphorn_xmss_marks_reserve(marks, 2, 0, message, &error), ALPHORN_ERROR_REFUSED);
    alphorn_xmss_permit_free(alphorn_xmss_marks_reserve(marks, 3, 0, message, &error));
    NOTHING(alphorn_xmss_marks_reserve(marks, 3, 0, changed, &error), ALPHORN_ERROR_REFUSED);
    // A forked process has the same file open, and would sign in the slots of this one.
    pid_t child = fork();
    if (child == 0) {
        alphorn_xmss_permit *twice = alphorn_xmss_marks_reserve(marks, 4, 0, changed, &error);
        end_child(twice == NULL && error.status == ALPHORN_ERROR_REFUSED);
    }
    CHECK(child > 0 && child_succeeded(child));
    alphorn_xmss_permit *permit = alphorn_xmss_marks_reserve(marks, 4, 0, message, &error);
    REFUSED(alphorn_xmss_sign(again, permit, signature, 423, &error));
    permit = alphorn_xmss_marks_reserve(marks, 5, 0, message, &error);
    alphorn_xmss_marks_free(marks);
    REFUSED(alphorn_xmss_sign(again, NULL, signature, 424, &error));
    CHECK(alphorn_xmss_sign(again, permit, signature, 424, &error) == ALPHORN_OK);
    uint8_t verdicts[2];
    alphorn_xmss_vote items[2] = {{public_key, 5, message, signature}, {public_key, 6, message, signature}};
    CHECK(alphorn_xmss_verify(context, set, items, 1, NULL, &error) == ALPHORN_OK);
    CHECK(alphorn_xmss_verify(context, set, items, 2, verdicts, &error) == ALPHORN_ERROR_INVALID);
    CHECK(verdicts[0] == 0 && verdicts[1] == 1);
    REFUSED(alphorn_xmss_verify(context, 9, items, 2, verdicts, &error));
    alphorn_bytes_free(secret);
    alphorn_bytes_free(tree);
    alphorn_xmss_key_free(again);
}

static void broadcast(alphorn_context *context) {
    static uint8_t payload[9000], back[9000];
    for (size_t i = 0; i < sizeof payload; i++) payload[i] = (uint8_t)(i * 31 + i / 7);
    const alphorn_subject subject = {7, 3, 0, 1};
    for (uint32_t code = 1; code <= 2; code++) {
        alphorn_broadcast *source =
            alphorn_broadcast_publish(context, code, &subject, payload, sizeof payload, &error);
        uint8_t header[ALPHORN_BROADCAST_HEADER_BYTES], root[32], network[32] = {0};
        CHECK(alphorn_broadcast_header(source, header, &error) == ALPHORN_OK);
        CHECK(alphorn_broadcast_signing_root(source, network, root, &error) == ALPHORN_OK);
        uint8_t heard[32];
        NOTHING(alphorn_broadcast_receive(context, header, 99, 1 << 20, &error), ALPHORN_ERROR_DECODE);
        NOTHING(alphorn_broadcast_receive(context, header, 100, 8999, &error), ALPHORN_ERROR_DECODE);
        alphorn_broadcast *node =
            alphorn_broadcast_receive(context, header, 100, sizeof payload, &error);
        // The root that a receiver verifies a signature of, before it adds anything.
        CHECK(alphorn_broadcast_signing_root(node, network, heard, &error) == ALPHORN_OK);
        CHECK(memcmp(root, heard, sizeof root) == 0);
        for (uint16_t i = 0; i < alphorn_broadcast_commitment_lists(source); i++) {
            alphorn_bytes *commitments = alphorn_broadcast_commitments(source, i, &error);
            CHECK(alphorn_broadcast_add_commitments(node, i, alphorn_bytes_data(commitments),
                                                    alphorn_bytes_len(commitments),
                                                    &error) == ALPHORN_OK);
            alphorn_bytes_free(commitments);
        }
        CHECK(alphorn_broadcast_payload(node, back, sizeof back, &error) == ALPHORN_ERROR_INCOMPLETE);
        bool useful = false;
        for (uint16_t i = 0; !alphorn_broadcast_is_full(node); i++) {
            uint16_t selector = (uint16_t)(i % alphorn_broadcast_selectors(source));
            alphorn_bytes *piece = alphorn_broadcast_piece(source, selector, &error);
            CHECK(alphorn_broadcast_add(node, alphorn_bytes_data(piece), alphorn_bytes_len(piece),
                                        &useful, &error) == ALPHORN_OK);
            alphorn_bytes_free(piece);
        }
        CHECK(useful && alphorn_broadcast_payload_bytes(node) == sizeof payload);
        REFUSED(alphorn_broadcast_payload(node, back, sizeof back - 1, &error));
        CHECK(alphorn_broadcast_payload(node, back, sizeof back, &error) == ALPHORN_OK);
        CHECK(memcmp(payload, back, sizeof back) == 0);
        NOTHING(alphorn_broadcast_piece(node, 60000, &error), ALPHORN_ERROR_ARGUMENT);
        alphorn_broadcast_free(node);
        alphorn_broadcast_free(source);
    }
    NOTHING(alphorn_broadcast_publish(context, 3, &subject, payload, 9, &error), ALPHORN_ERROR_ARGUMENT);
    NOTHING(alphorn_broadcast_publish(context, 1, &subject, payload, 0, &error), ALPHORN_ERROR_ARGUMENT);
}

struct heard {
    int steps, stop_at;
};

static int stopped(void *user) {
    const struct heard *heard = user;
    return heard->stop_at > 0 && heard->steps >= heard->stop_at;
}

static void step(void *user, const char *name) {
    struct heard *heard = user;
    CHECK(name != NULL && name[0] != 0);
    heard->steps++;
}

static void prove(alphorn_context *context, const char *folder) {
    static uint8_t public_keys[4][32], signatures[4][1171];
    for (uint32_t i = 0; i < 4; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%u", folder, i);
        alphorn_xmss_key *key = alphorn_xmss_key_interop(context, ALPHORN_XMSS_COMPACT,
                                                         ALPHORN_PURPOSE_VOTE, i, 5, 6, &error);
        alphorn_xmss_marks *marks = alphorn_xmss_marks_create(path, NULL, key, 0, &error);
        alphorn_xmss_permit *permit = alphorn_xmss_marks_reserve(marks, 5, 0, message, &error);
        CHECK(alphorn_xmss_sign(key, permit, signatures[i], 1171, &error) == ALPHORN_OK);
        CHECK(alphorn_xmss_key_public_key(key, public_keys[i], 32, &error) == ALPHORN_OK);
        alphorn_xmss_marks_free(marks);
        alphorn_xmss_key_free(key);
    }
    alphorn_members *members = alphorn_members_new(context, ALPHORN_XMSS_COMPACT, ALPHORN_PRESET_FAST,
                                                   public_keys[0], 4, 0, &error);
    CHECK(alphorn_members_mergeable_max(members) > 64 && alphorn_members_signatures_max(members) > 64);
    struct heard heard = {0, 0};
    alphorn_watch watch = {&heard, stopped, step};
    const uint32_t positions[2] = {0, 1}, others[2] = {2, 3};
    alphorn_bytes *first = alphorn_prove(members, 5, message, positions, signatures[0], 2, &watch, &error);
    CHECK(first != NULL && heard.steps > 3);
    CHECK(alphorn_bytes_len(first) <= alphorn_members_proof_bytes_max(members, 2));
    heard = (struct heard){0, 2};
    NOTHING(alphorn_prove(members, 5, message, positions, signatures[0], 2, &watch, &error),
            ALPHORN_ERROR_STOPPED);
    alphorn_bytes *second = alphorn_prove(members, 5, message, others, signatures[2], 2, NULL, &error);
    const uint8_t low = 0x3, high = 0xc, all = 0xf;
    alphorn_proof_part parts[2] = {
        {&low, 1, alphorn_bytes_data(first), alphorn_bytes_len(first)},
        {&high, 1, alphorn_bytes_data(second), alphorn_bytes_len(second)},
    };
    alphorn_bytes *merged = alphorn_merge(members, 5, message, parts, 2, NULL, &error);
    CHECK(alphorn_proof_verify(members, 5, message, &all, 1, alphorn_bytes_data(merged),
                               alphorn_bytes_len(merged), &error) == ALPHORN_OK);
    CHECK(alphorn_proof_verify(members, 5, message, &low, 1, alphorn_bytes_data(merged),
                               alphorn_bytes_len(merged), &error) == ALPHORN_ERROR_INVALID);
    NOTHING(alphorn_merge(members, 5, message, NULL, 0, NULL, &error), ALPHORN_ERROR_ARGUMENT);
    alphorn_bytes_free(merged);
    alphorn_bytes_free(second);
    alphorn_bytes_free(first);
    alphorn_members_free(members);
}

int main(int argc, char **argv) {
    CHECK(strcmp(alphorn_version(), "0.1.0") == 0);
    NOTHING(alphorn_context_new(100000, &error), ALPHORN_ERROR_ARGUMENT);
    bls();
    committees(alphorn_context_new(2, &error)); // which frees it while committees are alive
    alphorn_context *context = alphorn_context_new(1, &error);
    xmss(context, argv[1]);
    broadcast(context);
    if (argc > 2) prove(context, argv[1]);
    alphorn_context_free(context);
    alphorn_context_free(NULL);
    alphorn_committees_free(NULL);
    alphorn_bytes_free(NULL);
    CHECK(alphorn_bytes_data(NULL) == NULL && alphorn_bytes_len(NULL) == 0);
    printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}

// A vote with a one-time key: a permit from a store of marks, the signature, and why there is no second one
// in its slot.
//
//     cc one_time.c $(pkg-config --cflags --libs alphorn) -o one_time && ./one_time marks-of-the-key

#include <alphorn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: one_time FILE\n");
        return 2;
    }
    alphorn_error error;
    alphorn_context *context = alphorn_context_new(0, &error);
    // A key that everyone can compute, for the slots 0 to 63.
    alphorn_xmss_key *key = alphorn_xmss_key_interop(context, ALPHORN_XMSS_COMPACT,
                                                     ALPHORN_PURPOSE_VOTE, 7, 0, 64, &error);
    alphorn_xmss_marks *marks = alphorn_xmss_marks_create(argv[1], NULL, key, 0, &error);
    if (marks == NULL) {
        fprintf(stderr, "no marks: %s\n", error.message);
        return 1;
    }
    uint8_t message[ALPHORN_XMSS_MESSAGE_BYTES] = {42}, other[ALPHORN_XMSS_MESSAGE_BYTES] = {43};
    uint8_t public_key[64], signature[4096];
    alphorn_xmss_key_public_key(key, public_key, sizeof public_key, &error);
    alphorn_xmss_permit *permit = alphorn_xmss_marks_reserve(marks, 5, 0, message, &error);
    alphorn_status made = alphorn_xmss_sign(key, permit, signature, sizeof signature, &error);
    alphorn_xmss_vote vote = {public_key, 5, message, signature};
    alphorn_status holds =
        alphorn_xmss_verify(context, ALPHORN_XMSS_COMPACT, &vote, 1, NULL, &error);
    printf("%zu bytes: %s\n", alphorn_xmss_signature_bytes(ALPHORN_XMSS_COMPACT),
           made == ALPHORN_OK && holds == ALPHORN_OK ? "the signature holds" : error.message);

    alphorn_xmss_permit *second = alphorn_xmss_marks_reserve(marks, 5, 0, other, &error);
    printf("again: %s\n", error.message);

    int as_expected = holds == ALPHORN_OK && second == NULL && error.status == ALPHORN_ERROR_REFUSED;
    alphorn_xmss_permit_free(second);
    alphorn_xmss_marks_free(marks);
    alphorn_xmss_key_free(key);
    alphorn_context_free(context);
    return as_expected ? 0 : 1;
}

// A committee of five, three of whom signed: keys with proofs of possession, the sum of their signatures,
// and the answer to a changed message.
//
//     cc committee.c $(pkg-config --cflags --libs alphorn) -o committee && ./committee

#include <alphorn.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS = 5 };

int main(void) {
    alphorn_error error;
    alphorn_context *context = alphorn_context_new(1, &error);
    uint8_t keys[MEMBERS][ALPHORN_BLS_PUBLIC_KEY_BYTES];
    uint8_t proofs[MEMBERS][ALPHORN_BLS_SIGNATURE_BYTES];
    uint8_t votes[MEMBERS][ALPHORN_BLS_SIGNATURE_BYTES];
    const uint8_t *message = (const uint8_t *)"head of slot 7";
    size_t signed_by = 0;
    uint8_t signers[1] = {0x16}; // positions 1, 2 and 4

    for (size_t i = 0; i < MEMBERS; i++) {
        uint8_t material[32] = {(uint8_t)(i + 1)}; // from the system's entropy, if it is to protect anything
        uint8_t secret[ALPHORN_BLS_SECRET_KEY_BYTES];
        alphorn_bls_key_gen(material, sizeof material, secret, NULL);
        alphorn_bls_public_key(secret, keys[i], NULL);
        alphorn_bls_pop_prove(secret, proofs[i], NULL);
        if (signers[0] >> i & 1) {
            alphorn_bls_sign(secret, message, 14, votes[signed_by++], NULL);
        }
        memset(secret, 0, sizeof secret);
    }

    alphorn_bls_registry *registry =
        alphorn_bls_registry_new(context, keys[0], proofs[0], MEMBERS, &error);
    if (registry == NULL) {
        fprintf(stderr, "no registry: %s\n", error.message);
        return 1;
    }
    size_t sizes[1] = {MEMBERS};
    alphorn_committees *committees = alphorn_committees_new(registry, NULL, 0, sizes, 1, &error);
    uint8_t sum[ALPHORN_BLS_SIGNATURE_BYTES];
    alphorn_bls_aggregate(votes[0], signed_by, sum, &error);

    alphorn_collection items[2] = {{0, signers, 1, message, 14, sum}, {0, signers, 1, message, 13, sum}};
    uint8_t verdicts[2];
    alphorn_status status = alphorn_committees_verify(committees, items, 2, verdicts, &error);
    printf("%zu votes: verdict %u; a changed message: verdict %u (%s)\n", signed_by, verdicts[0],
           verdicts[1], error.message);

    alphorn_committees_free(committees);
    alphorn_bls_registry_free(registry);
    alphorn_context_free(context);
    int as_expected = status == ALPHORN_ERROR_INVALID && verdicts[0] == ALPHORN_VERDICT_VALID &&
                      verdicts[1] == ALPHORN_VERDICT_SIGNATURE;
    return as_expected ? 0 : 1;
}

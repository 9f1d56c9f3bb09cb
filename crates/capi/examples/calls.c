// What it takes to verify a collection of a committee of 32,768 on one thread and called from C: the nanoseconds of
// each call. The collection is in the folder that the program of the same name in crates/bindings/examples writes.
//
//     cc -O2 calls.c $(pkg-config --cflags --libs alphorn) -o calls && ./calls FOLDER

// For clock_gettime.
#define _POSIX_C_SOURCE 199309L

#include <alphorn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MEMBERS = 32768, CALLS = 60 };

static uint8_t keys[MEMBERS * ALPHORN_BLS_PUBLIC_KEY_BYTES];
static uint8_t signers[MEMBERS / 8];
static uint8_t signature[ALPHORN_BLS_SIGNATURE_BYTES];

static void read_file(const char *folder, const char *name, uint8_t *to, size_t bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(to, 1, bytes, file) != bytes) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(file);
}

static long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: calls FOLDER\n");
        return 2;
    }
    read_file(arguments[1], "keys", keys, sizeof keys);
    read_file(arguments[1], "signers", signers, sizeof signers);
    read_file(arguments[1], "signature", signature, sizeof signature);
    alphorn_error error;
    alphorn_context *context = alphorn_context_new(1, &error);
    alphorn_bls_registry *registry = alphorn_bls_registry_proven(context, keys, MEMBERS, &error);
    size_t sizes[1] = {MEMBERS};
    alphorn_committees *committees = alphorn_committees_new(registry, NULL, 0, sizes, 1, &error);
    const uint8_t *message = (const uint8_t *)"head of slot 7";
    for (int call = 0; call < CALLS; call++) {
        long long began = now_ns();
        alphorn_collection item = {0, signers, sizeof signers, message, 14, signature};
        uint8_t verdict;
        alphorn_status status = alphorn_committees_verify(committees, &item, 1, &verdict, &error);
        long long took = now_ns() - began;
        if (status != ALPHORN_OK) {
            fprintf(stderr, "the collection does not hold: %s\n", error.message);
            return 1;
        }
        printf("%lld\n", took);
    }
    alphorn_committees_free(committees);
    alphorn_bls_registry_free(registry);
    alphorn_context_free(context);
    return 0;
}

/* The safetensors reader and writer: a round trip, and headers that break each rule of the format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "safetensors.h"

/* A file in a block of exactly its size, so that a sanitizer sees a read past the end. The caller frees. */
static unsigned char *make_file(const char *header, size_t header_size, uint64_t length, size_t data_size,
                                size_t *size)
{
    *size = 8 + header_size + data_size;
    unsigned char *bytes = calloc(1, *size);
    assert_non_null(bytes);
    for (uint32_t i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(length >> (8 * i));
    }
    memcpy(bytes + 8, header, header_size);
    return bytes;
}

static void assert_refused(const unsigned char *bytes, size_t size, const char *sentence)
{
    Safetensors file;
    Complaint complaint;
    const bool parsed = safetensors_parse(bytes, size, &file, &complaint);
    if (parsed || strstr(complaint.text, sentence) == NULL) {
        fail_msg("'%s' wanted, got '%s'", sentence, parsed ? "no complaint" : complaint.text);
    }
    for (const char *c = complaint.text; *c != '\0'; c++) {
        assert_true((unsigned char)*c >= 0x20);
    }
    assert_null(file.header);
    assert_null(file.tensors);
}

typedef struct Hostile {
    const char *header;
    size_t data_size;
    const char *sentence;
} Hostile;

#define ENTRY(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const Hostile hostiles[] = {
    {"", 0, "must begin with '{'"},
    {" {}", 0, "must begin with '{'"},
    {"[]", 0, "must begin with '{'"},
    {"{", 0, "not JSON"},
    {"{}}", 0, "not JSON"},
    {"{\"a\":" ENTRY("U8", "[1]", "[0,1]") ",\"a\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, "duplicate"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "duplicate"},
    {"{\"a\\u0000b\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, "not JSON"},
    {"{\"\xff\xfe\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, "not JSON"},
    {"{\"a\":1}", 0, "a: must be an object"},
    {"{\"a\":null}", 0, "a: must be an object"},
    {"{\"a\":{}}", 0, "a: dtype must be a string"},
    {"{\"a\\nb\":{}}", 0, "a?b: dtype must be a string"},
    {"{\"a\":" ENTRY("F31", "[1]", "[0,1]") "}", 1, "a: dtype 'F31' is unknown"},
    {"{\"a\":" ENTRY("f32", "[1]", "[0,4]") "}", 4, "a: dtype 'f32' is unknown"},
    {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a: dtype must be a string"},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "a: shape must be an array"},
    {"{\"a\":" ENTRY("U8", "3", "[0,3]") "}", 3, "a: shape must be an array"},
    {"{\"a\":" ENTRY("U8", "[-1]", "[0,1]") "}", 1, "a: shape[0] must be a non-negative integer"},
    {"{\"a\":" ENTRY("U8", "[1.0]", "[0,1]") "}", 1, "a: shape[0] must be a non-negative integer"},
    {"{\"a\":" ENTRY("U8", "[1,\"2\"]", "[0,2]") "}", 2, "a: shape[1] must be a non-negative integer"},
    {"{\"a\":" ENTRY("U8", "[18446744073709551617]", "[0,1]") "}", 1, "too big"},
    {"{\"a\":" ENTRY("U8", "[1e400]", "[0,1]") "}", 1, "real number overflow"},
    {"{\"a\":" ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, "a: shape has 9 dimensions, must have at most 8"},
    {"{\"a\":" ENTRY("U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "a: shape times the size of its dtype exceeds"},
    {"{\"a\":" ENTRY("F32", "[4611686018427387905]", "[0,4]") "}", 4, "a: shape times the size of its dtype exceeds"},
    {"{\"a\":" ENTRY("F64", "[4294967296,536870912,4294967296]", "[0,0]") "}", 0, "exceeds 64 bits"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "a: data_offsets must be two"},
    {"{\"a\":" ENTRY("U8", "[1]", "[0]") "}", 1, "a: data_offsets must be two"},
    {"{\"a\":" ENTRY("U8", "[1]", "[0,1,2]") "}", 1, "a: data_offsets must be two"},
    {"{\"a\":" ENTRY("U8", "[1]", "[-1,0]") "}", 1, "a: data_offsets must be two"},
    {"{\"a\":" ENTRY("U8", "[1]", "[0,1.5]") "}", 1, "a: data_offsets must be two"},
    {"{\"a\":" ENTRY("U8", "[1]", "[1,0]") "}", 1, "a: data_offsets are [1, 0]"},
    {"{\"a\":" ENTRY("U8", "[1]", "[0,2]") "}", 1, "a: data_offsets are [0, 2]"},
    {"{\"a\":" ENTRY("U8", "[9223372036854775807]", "[0,9223372036854775807]") "}", 1, "a: data_offsets are"},
    {"{\"a\":" ENTRY("U8", "[1]", "[9223372036854775806,9223372036854775807]") "}", 1, "a: data_offsets are"},
    {"{\"a\":" ENTRY("F32", "[2]", "[0,4]") "}", 4, "a: data_offsets hold 4 bytes, dtype and shape make 8"},
    {"{\"a\":" ENTRY("U8", "[0]", "[0,4]") "}", 4, "a: data_offsets hold 4 bytes, dtype and shape make 0"},
    {"{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[4]", "[2,6]") "}", 6, "b: data_offsets start at 2"},
    {"{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[4]", "[0,4]") "}", 4, "data_offsets start at 0"},
    {"{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[2]", "[6,8]") "}", 8, "b: data_offsets start at 6"},
    {"{\"a\":" ENTRY("U8", "[4]", "[4,8]") "}", 8, "a: data_offsets start at 4"},
    {"{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[0]", "[2,2]") "}", 4, "data_offsets start at 2"},
    {"{\"a\":" ENTRY("U8", "[4]", "[0,4]") "}", 8, "the data is 8 bytes, the tensors hold 4"},
    {"{}", 1, "the data is 1 bytes, the tensors hold 0"},
    {"{\"__metadata__\":7}", 0, "__metadata__: must be an object"},
    {"{\"__metadata__\":{\"op\":7}}", 0, "__metadata__: 'op' must be a string"},
    {"{\"__metadata__\":{\"op\":{}}}", 0, "__metadata__: 'op' must be a string"},
    {"{\"__metadata__\":{\"op\":\"a\",\"op\":\"b\"}}", 0, "duplicate"},
};

static void test_hostile_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
        const size_t header_size = strlen(hostiles[i].header);
        size_t size;
        unsigned char *bytes = make_file(hostiles[i].header, header_size, header_size, hostiles[i].data_size, &size);
        assert_refused(bytes, size, hostiles[i].sentence);
        free(bytes);
    }
}

static void test_header_length(void **state)
{
    (void)state;
    const uint64_t lengths[] = {3, 0x7fffffffu, 100000001u, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t size;
        unsigned char *short_file = make_file("{}", 2, lengths[i], 0, &size);
        assert_refused(short_file, size, "the header length is");
        free(short_file);
    }
    /* All of it is there, and it is still more than the format allows. */
    size_t large;
    unsigned char *bytes = make_file("{}", 2, 100000001u, 100000001u, &large);
    assert_refused(bytes, large, "the header length is 100000001, must be at most 100000000");
    free(bytes);
    for (size_t size = 0; size < 8; size++) {
        bytes = calloc(1, size + 1);
        assert_non_null(bytes);
        assert_refused(bytes, size, "must begin with 8 bytes of header length");
        free(bytes);
    }
}

static void test_deep_nesting(void **state)
{
    (void)state;
    char header[100000];
    memset(header, '[', sizeof header);
    static const char opening[5] = {'{', '"', 'a', '"', ':'};
    memcpy(header, opening, sizeof opening);
    size_t size;
    unsigned char *bytes = make_file(header, sizeof header, sizeof header, 0, &size);
    assert_refused(bytes, size, "not JSON");
    free(bytes);
}

/* Every prefix of a whole file is refused: none has the data that its header promises. */
static void test_truncated(void **state)
{
    (void)state;
    const char header[] = "{\"a\":" ENTRY("F32", "[2]", "[0,8]") "}";
    size_t size;
    unsigned char *whole = make_file(header, sizeof header - 1, sizeof header - 1, 8, &size);
    for (size_t cut = 0; cut < size; cut++) {
        unsigned char *bytes = malloc(cut + 1);
        assert_non_null(bytes);
        memcpy(bytes, whole, cut);
        Safetensors file;
        Complaint complaint;
        assert_false(safetensors_parse(bytes, cut, &file, &complaint));
        free(bytes);
    }
    Safetensors file;
    Complaint complaint;
    assert_true(safetensors_parse(whole, size, &file, &complaint));
    safetensors_free(&file);
    free(whole);
}

static void test_allowed(void **state)
{
    (void)state;
    /* Trailing spaces, tensors out of order and unaligned, a scalar, empty tensors, unknown members. */
    const char header[] = "{\"late\":" ENTRY("F32", "[1]", "[1,5]") ",\"scalar\":" ENTRY("U8", "[]", "[0,1]")
        ",\"empty\":" ENTRY("I64", "[3,0]", "[1,1]") ",\"end\":" ENTRY("F16", "[0]", "[5,5]")
        ",\"more\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"note\":1}}   ";
    size_t size;
    unsigned char *bytes = make_file(header, sizeof header - 1, sizeof header - 1, 5, &size);
    Safetensors file;
    Complaint complaint;
    assert_true(safetensors_parse(bytes, size, &file, &complaint));
    assert_int_equal(file.count, 5);
    const SafetensorsTensor *late = safetensors_find(&file, "late");
    assert_ptr_equal(late->data, bytes + size - 4);
    assert_int_equal(late->size, 4);
    assert_int_equal(safetensors_find(&file, "scalar")->rank, 0);
    assert_int_equal(safetensors_find(&file, "empty")->size, 0);
    assert_null(safetensors_find(&file, "absent"));
    assert_null(safetensors_metadata(&file, "op"));
    safetensors_free(&file);
    free(bytes);
}

static void test_round_trip(void **state)
{
    const char *directory = *state;
    char path[256];
    snprintf(path, sizeof path, "%s/round", directory);
    const unsigned char data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const SafetensorsTensor tensors[] = {
        {"odd", SAFETENSORS_U8, 1, {3}, data, 3},
        {"rest", SAFETENSORS_BF16, 2, {2, 2}, data, 8},
        {"none", SAFETENSORS_F32, 3, {0, 4096, 9}, data, 0},
    };
    const SafetensorsOption options[] = {{"op", "seed_tail"}, {"quote", "\"\\\n\xc3\xa9"}};
    Complaint complaint;
    /* Twice: the second replaces the first. */
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(safetensors_write(path, tensors, 3, options, 2, &complaint));
    }
    Safetensors file;
    assert_true(safetensors_read(path, &file, &complaint));
    assert_int_equal(file.count, 3);
    for (size_t i = 0; i < 3; i++) {
        const SafetensorsTensor *read = safetensors_find(&file, tensors[i].name);
        assert_non_null(read);
        assert_int_equal(read->type, tensors[i].type);
        assert_int_equal(read->rank, tensors[i].rank);
        assert_memory_equal(read->shape, tensors[i].shape, sizeof read->shape);
        assert_int_equal(read->size, tensors[i].size);
        assert_memory_equal(read->data, tensors[i].data, tensors[i].size);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(safetensors_metadata(&file, options[i].key), options[i].value);
    }
    safetensors_free(&file);
    assert_int_equal(unlink(path), 0);
}

static void test_paths(void **state)
{
    const char *directory = *state;
    char missing[256];
    char fifo[256];
    char empty[256];
    char beyond[256];
    snprintf(missing, sizeof missing, "%s/missing", directory);
    snprintf(fifo, sizeof fifo, "%s/fifo", directory);
    snprintf(empty, sizeof empty, "%s/empty", directory);
    snprintf(beyond, sizeof beyond, "%s/missing/out", directory);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    FILE *made = fopen(empty, "w");
    assert_non_null(made);
    fclose(made);

    const struct {
        const char *path;
        const char *sentence;
    } unreadable[] = {
        {missing, "cannot be opened"}, {directory, "is not a regular file"}, {fifo, "is not a regular file"},
        {"/dev/zero", "is not a regular file"}, {empty, "the file is 0 bytes"}, {"", "cannot be opened"},
    };
    Complaint complaint;
    for (size_t i = 0; i < sizeof unreadable / sizeof unreadable[0]; i++) {
        Safetensors file;
        assert_false(safetensors_read(unreadable[i].path, &file, &complaint));
        assert_non_null(strstr(complaint.text, unreadable[i].sentence));
    }
    const char *const unwritable[] = {directory, "/dev/null", beyond, ""};
    for (size_t i = 0; i < sizeof unwritable / sizeof unwritable[0]; i++) {
        assert_false(safetensors_write(unwritable[i], NULL, 0, NULL, 0, &complaint));
    }
    assert_int_equal(unlink(fifo), 0);
    assert_int_equal(unlink(empty), 0);
}

/* A file that cannot grow beyond 4 bytes, as on a full disk: the one that was there stays, and nothing beside it. */
static void test_full_disk(void **state)
{
    const char *directory = *state;
    char path[256];
    snprintf(path, sizeof path, "%s/kept", directory);
    const SafetensorsTensor tensor = {"a", SAFETENSORS_U8, 1, {1}, (const unsigned char *)"x", 1};
    Complaint complaint;
    assert_true(safetensors_write(path, &tensor, 1, NULL, 0, &complaint));
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4, limit.rlim_max}), 0);
    const bool written = safetensors_write(path, NULL, 0, NULL, 0, &complaint);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, handler);
    assert_false(written);
    assert_non_null(strstr(complaint.text, "kept: cannot be written: "));
    Safetensors file;
    assert_true(safetensors_read(path, &file, &complaint));
    assert_int_equal(file.count, 1);
    safetensors_free(&file);
    assert_int_equal(unlink(path), 0);
    /* Nothing is left behind: an empty directory can be removed. */
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(mkdir(directory, 0700), 0);
}

static int make_directory(void **state)
{
    char *directory = strdup("test_safetensors.XXXXXX");
    *state = directory;
    return directory != NULL && mkdtemp(directory) != NULL ? 0 : -1;
}

static int remove_directory(void **state)
{
    const int result = rmdir(*state);
    free(*state);
    return result;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_headers), cmocka_unit_test(test_header_length),
        cmocka_unit_test(test_deep_nesting),    cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_allowed),         cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_paths),           cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}

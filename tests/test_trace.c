/* The trace reader: what it accepts, and that everything malformed is refused with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace.h"

#define HEADER "TIMESTAMP,ContextTokens,GeneratedTokens\n"

static bool read_bytes(const char *bytes, size_t size, Trace *trace, TraceError *error)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    rewind(file);
    const bool read = trace_read(file, trace, error);
    fclose(file);
    return read;
}

typedef struct Accepted {
    const char *text;
    uint32_t count;
    TraceRequest last;
} Accepted;

static void accepts(void **state)
{
    (void)state;
    static const Accepted table[] = {
        {HEADER "a,1,2\n", 1, {1, 2}},
        {HEADER "a,1,2", 1, {1, 2}},
        {HEADER "a,0,0\na,0,7\na,7,0\n", 3, {7, 0}},
        {HEADER "a,4294967295,0\n", 1, {4294967295u, 0}},
        {HEADER "a,0000000000000000000000012,3\n", 1, {12, 3}},
        {"\xef\xbb\xbf" HEADER "a,1,2\n", 1, {1, 2}},
        {"TIMESTAMP,ContextTokens,GeneratedTokens\r\na,1,2\r\nb,3,4\r\n", 2, {3, 4}},
        {"TIMESTAMP,ContextTokens,GeneratedTokens\ra,1,2\rb,3,4\r", 2, {3, 4}},
        {"GeneratedTokens,x,ContextTokens,TIMESTAMP,y\n2,,1,a,b\n", 1, {1, 2}},
        {"\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\"\n\"a,b\",\"1\",\"2\"\n", 1, {1, 2}},
        {"\n\n" HEADER "\na,1,2\n  \n\nb,3,4\n\n", 2, {3, 4}},
        {"TIMESTAMP, ContextTokens ,GeneratedTokens\na, 1 ,\t2\n", 1, {1, 2}},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        Trace trace;
        TraceError error;
        if (!read_bytes(table[i].text, strlen(table[i].text), &trace, &error)) {
            fail_msg("case %zu: %zu: %s", i, error.line, error.complaint.text);
        }
        assert_int_equal(trace.count, table[i].count);
        assert_int_equal(trace.requests[trace.count - 1].context_tokens, table[i].last.context_tokens);
        assert_int_equal(trace.requests[trace.count - 1].generated_tokens, table[i].last.generated_tokens);
        trace_destroy(&trace);
    }
}

static void assert_refused(const char *bytes, size_t size, size_t line, const char *says)
{
    Trace trace;
    TraceError error;
    if (read_bytes(bytes, size, &trace, &error)) {
        fail_msg("accepted, where it must say: %s", says);
    }
    if (error.line != line || strstr(error.complaint.text, says) == NULL) {
        fail_msg("said %zu: %s, not %zu: %s", error.line, error.complaint.text, line, says);
    }
    assert_null(trace.requests);
    assert_int_equal(trace.count, 0);
}

typedef struct Refused {
    const char *text;
    size_t line;
    const char *says;
} Refused;

static void refuses(void **state)
{
    (void)state;
    static const Refused table[] = {
        {"", 1, "no header"},
        {"\n\n\n", 1, "no header"},
        {"\xef\xbb\xbf", 1, "no header"},
        {HEADER, 1, "no request after the header"},
        {HEADER "\n\n", 3, "no request after the header"},
        {"TIMESTAMP,ContextTokens\na,1\n", 1, "no column GeneratedTokens"},
        {"ContextTokens,GeneratedTokens\n1,2\n", 1, "no column TIMESTAMP"},
        {"a,1,2\n", 1, "no column TIMESTAMP"},
        {"TIMESTAMP,contexttokens,GeneratedTokens\na,1,2\n", 1, "no column ContextTokens"},
        {"TIMESTAMP,ContextTokens,GeneratedTokens,ContextTokens\na,1,2,3\n", 1, "ContextTokens twice"},
        {HEADER "a,1,2\nb,x,2\n", 3, "ContextTokens is 'x', not a whole number"},
        {HEADER "a,1,2.5\n", 2, "GeneratedTokens is '2.5', not a whole number"},
        {HEADER "a,1,1e3\n", 2, "not a whole number"},
        {HEADER "a,0x10,2\n", 2, "not a whole number"},
        {HEADER "a,+1,2\n", 2, "not a whole number"},
        {HEADER "a,-,2\n", 2, "not a whole number"},
        {HEADER "a,1 2,2\n", 2, "not a whole number"},
        {HEADER "a,-1,2\n", 2, "ContextTokens is -1, below 0"},
        {HEADER "a,,2\n", 2, "ContextTokens is empty"},
        {HEADER "a,1,4294967296\n", 2, "GeneratedTokens is 4294967296, above 2^32 - 1"},
        {HEADER "a,1,18446744073709551617\n", 2, "above 2^32 - 1"},
        {HEADER "a,4294967295,1\n", 2, "ContextTokens + GeneratedTokens is above 2^32 - 1"},
        {HEADER "a,1\n", 2, "2 fields where the header has 3"},
        {HEADER "a,1,2,3\n", 2, "4 fields where the header has 3"},
        {HEADER "\n\r\n\na,1\n", 5, "2 fields"},
        {HEADER "a,1,2\n\"b,1,2\nc,1,2\n", 3, "a quoted field that does not end in its line"},
        {HEADER "a,1,2\nb,1,\"2", 3, "a quoted field that does not end in its line"},
        {HEADER "a,1,2\nb\"c,1,2\n", 3, "a quote in the middle of a field"},
        {HEADER "a,\x1b[31m\xff,2\n", 2, "ContextTokens is '?[31m"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_refused(table[i].text, strlen(table[i].text), table[i].line, table[i].says);
    }
    static const char nul[] = HEADER "a,1\0,2\n";
    assert_refused(nul, sizeof nul - 1, 2, "a NUL byte");
    static const char wide[] = "T\0I\0M\0E\0";
    assert_refused(wide, sizeof wide - 1, 1, "a NUL byte");
}

/* A field of any length is refused before it is held. */
static void refuses_a_huge_field(void **state)
{
    (void)state;
    static const char header[] = HEADER "a,1,2\n";
    const size_t size = (size_t)1 << 22;
    char *bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, '7', size);
    memcpy(bytes, header, sizeof header - 1);
    assert_refused(bytes, size, 3, "a field of more than 4096 bytes");
    memset(bytes, ',', size);
    memcpy(bytes, header, sizeof header - 1);
    assert_refused(bytes, size, 3, "ContextTokens is empty");
    free(bytes);
}

static void counts_and_truncates(void **state)
{
    (void)state;
    static const char text[] = HEADER "a,4294967295,0\nb,1,2\nc,0,4294967295\n";
    Trace trace;
    TraceError error;
    assert_true(read_bytes(text, sizeof text - 1, &trace, &error));
    assert_true(trace_tokens(&trace) == 2 * (uint64_t)UINT32_MAX + 3);
    trace_truncate(&trace, 5);
    assert_int_equal(trace.count, 3);
    trace_truncate(&trace, 2);
    assert_int_equal(trace.count, 2);
    trace_destroy(&trace);
}

static void says_why_a_file_cannot_be_read(void **state)
{
    (void)state;
    Trace trace;
    TraceError error;
    FILE *directory = fopen(".", "rb");
    assert_non_null(directory);
    assert_false(trace_read(directory, &trace, &error));
    assert_int_equal(error.line, 0);
    assert_string_equal(error.complaint.text, "Is a directory");
    fclose(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_a_huge_field),
        cmocka_unit_test(counts_and_truncates),
        cmocka_unit_test(says_why_a_file_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "trace.h"

#include <csv.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"

/* Bytes of a field, at least, that are refused: no number and no name is that long. */
#define LONGEST_FIELD 4096u
#define NO_COLUMN SIZE_MAX
#define UNCLOSED_QUOTE "a quoted field that does not end in its line"

enum { TIMESTAMP, CONTEXT_TOKENS, GENERATED_TOKENS, COLUMN_COUNT };

static const char *const column_names[COLUMN_COUNT] = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"};

/* What libcsv's callbacks work on. The first error stays. */
typedef struct Reader {
    Trace *trace;
    size_t capacity;
    TraceError *error;
    bool failed;
    bool has_header;
    size_t line;    /* counted from 1 */
    bool row_ended; /* in this line */
    bool blank;     /* this line, so far */
    size_t field;
    size_t columns[COLUMN_COUNT];
    size_t header_fields;
    uint32_t values[COLUMN_COUNT];
} Reader;

static void fail(Reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fail(Reader *reader, const char *format, ...)
{
    if (reader->failed) {
        return;
    }
    reader->failed = true;
    reader->error->line = reader->line;
    va_list arguments;
    va_start(arguments, format);
    complain_list(&reader->error->complaint, format, arguments);
    va_end(arguments);
}

/* How many bytes of a field an error shows. */
static int shown(size_t length)
{
    return length < 32 ? (int)length : 32;
}

static void read_name(Reader *reader, const char *field, size_t length)
{
    for (size_t column = 0; column < COLUMN_COUNT; column++) {
        if (length != strlen(column_names[column]) || memcmp(field, column_names[column], length) != 0) {
            continue;
        }
        if (reader->columns[column] != NO_COLUMN) {
            fail(reader, "the header names %s twice", column_names[column]);
        }
        reader->columns[column] = reader->field;
    }
}

static uint32_t read_number(Reader *reader, const char *name, const char *field, size_t length)
{
    const bool negative = length > 1 && field[0] == '-';
    uint64_t value = 0;
    for (size_t i = negative ? 1 : 0; i < length; i++) {
        if (field[i] < '0' || field[i] > '9') {
            fail(reader, "%s is '%.*s', not a whole number", name, shown(length), field);
            return 0;
        }
        value = value * 10 + (uint64_t)(field[i] - '0');
        value = value <= UINT32_MAX ? value : (uint64_t)UINT32_MAX + 1;
    }
    if (length == 0) {
        fail(reader, "%s is empty", name);
    } else if (negative) {
        fail(reader, "%s is %.*s, below 0", name, shown(length), field);
    } else if (value > UINT32_MAX) {
        fail(reader, "%s is %.*s, above 2^32 - 1", name, shown(length), field);
    }
    return (uint32_t)value;
}

static void on_field(void *field, size_t length, void *data)
{
    Reader *reader = data;
    if (!reader->has_header) {
        read_name(reader, field, length);
    } else if (reader->field == reader->columns[CONTEXT_TOKENS] || reader->field == reader->columns[GENERATED_TOKENS]) {
        const size_t column = reader->field == reader->columns[CONTEXT_TOKENS] ? CONTEXT_TOKENS : GENERATED_TOKENS;
        reader->values[column] = read_number(reader, column_names[column], field, length);
    }
    reader->field++;
}

static void end_header(Reader *reader)
{
    reader->has_header = true;
    reader->header_fields = reader->field;
    for (size_t column = 0; column < COLUMN_COUNT; column++) {
        if (reader->columns[column] == NO_COLUMN) {
            fail(reader, "the header has no column %s", column_names[column]);
        }
    }
}

static void end_request(Reader *reader)
{
    Trace *trace = reader->trace;
    const TraceRequest request = {reader->values[CONTEXT_TOKENS], reader->values[GENERATED_TOKENS]};
    if (reader->field != reader->header_fields) {
        fail(reader, "%zu fields where the header has %zu", reader->field, reader->header_fields);
    } else if (request.generated_tokens > UINT32_MAX - request.context_tokens) {
        fail(reader, "ContextTokens + GeneratedTokens is above 2^32 - 1");
    } else if (trace->count == NO_REQUEST) {
        fail(reader, "more than 2^32 - 1 requests");
    } else if (trace->count == reader->capacity) {
        const size_t capacity = reader->capacity != 0 ? reader->capacity * 2 : 1024;
        TraceRequest *requests =
            capacity <= SIZE_MAX / sizeof *requests ? realloc(trace->requests, capacity * sizeof *requests) : NULL;
        if (requests == NULL) {
            fail(reader, "out of memory after %u requests", (unsigned)trace->count);
        } else {
            trace->requests = requests;
            reader->capacity = capacity;
        }
    }
    if (!reader->failed) {
        trace->requests[trace->count++] = request;
    }
}

static void on_row(int terminator, void *data)
{
    (void)terminator;
    Reader *reader = data;
    if (reader->failed) {
        return;
    }
    if (reader->has_header) {
        end_request(reader);
    } else {
        end_header(reader);
    }
    reader->field = 0;
    reader->row_ended = true;
}

/* One piece of a line, which ends in a newline unless the line is longer than that or the file's last. */
static void read_piece(Reader *reader, struct csv_parser *parser, const char *piece, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        reader->blank = reader->blank && strchr(" \t\r\n", piece[i]) != NULL;
    }
    if (memchr(piece, '\0', length) != NULL) {
        fail(reader, "a NUL byte");
    } else if (csv_parse(parser, piece, length, on_field, on_row, reader) != length) {
        fail(reader, csv_error(parser) == CSV_EPARSE ? "a quote in the middle of a field" : "out of memory");
    } else if (csv_get_buffer_size(parser) > LONGEST_FIELD) {
        fail(reader, "a field of more than %u bytes", LONGEST_FIELD);
    } else if (length != 0 && piece[length - 1] == '\n' && !reader->row_ended && !reader->blank) {
        fail(reader, UNCLOSED_QUOTE);
    }
}

/* fgets hides NUL bytes, and getline takes lines of any length. */
static size_t get_piece(FILE *file, char *piece, size_t size)
{
    size_t length = 0;
    int character = 0;
    while (length < size && character != '\n' && (character = getc(file)) != EOF) {
        piece[length++] = (char)character;
    }
    return length;
}

static void read_file(Reader *reader, struct csv_parser *parser, FILE *file)
{
    char piece[LONGEST_FIELD / 2];
    bool line_ended = true;
    size_t length;
    while (!reader->failed && (length = get_piece(file, piece, sizeof piece)) != 0) {
        const size_t skipped = reader->line == 0 && length >= 3 && memcmp(piece, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        if (line_ended) {
            reader->line++;
            reader->row_ended = false;
            reader->blank = true;
        }
        line_ended = piece[length - 1] == '\n';
        read_piece(reader, parser, piece + skipped, length - skipped);
    }
    if (ferror(file)) {
        reader->line = 0;
        fail(reader, "%s", strerror(errno));
    }
    if (!reader->failed && csv_fini(parser, on_field, on_row, reader) != 0) {
        fail(reader, UNCLOSED_QUOTE);
    }
    if (!reader->has_header) {
        reader->line = 1;
        fail(reader, "no header");
    } else if (reader->trace->count == 0) {
        fail(reader, "no request after the header");
    }
}

bool trace_read(FILE *file, Trace *trace, TraceError *error)
{
    *trace = (Trace){0};
    *error = (TraceError){0};
    Reader reader = {.trace = trace, .error = error};
    for (size_t column = 0; column < COLUMN_COUNT; column++) {
        reader.columns[column] = NO_COLUMN;
    }
    struct csv_parser parser;
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0) {
        fail(&reader, "libcsv does not start");
    } else {
        read_file(&reader, &parser, file);
        csv_free(&parser);
    }
    if (reader.failed) {
        trace_destroy(trace);
    }
    return !reader.failed;
}

void trace_truncate(Trace *trace, uint32_t count)
{
    trace->count = trace->count < count ? trace->count : count;
}

uint64_t trace_tokens(const Trace *trace)
{
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < trace->count; i++) {
        tokens += (uint64_t)trace->requests[i].context_tokens + trace->requests[i].generated_tokens;
    }
    return tokens;
}

void trace_destroy(Trace *trace)
{
    free(trace->requests);
    *trace = (Trace){0};
}

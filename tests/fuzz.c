#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void must_hold(bool condition, const char *invariant)
{
    if (!condition) {
        fprintf(stderr, "broken invariant: %s\n", invariant);
        abort();
    }
}

void spoil_complaint(Complaint *complaint)
{
    memset(complaint->text, '\n', sizeof complaint->text);
}

void must_be_a_line(const Complaint *complaint)
{
    const size_t length = strnlen(complaint->text, sizeof complaint->text);
    must_hold(length != 0 && length < sizeof complaint->text, "a complaint is a string, and not empty");
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)complaint->text[i];
        const unsigned char before = i != 0 ? (unsigned char)complaint->text[i - 1] : 0;
        const bool c1 = byte >= 0x80 && byte < 0xa0 && (before < 0x80 || before == 0xc2);
        must_hold(byte >= 0x20 && byte != 0x7f && !c1, "a complaint holds no control character");
    }
}

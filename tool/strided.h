/* Dense tensors and images of strided buffers, one into the other. Bytes only. */
#ifndef KPOOL_TOOL_STRIDED_H
#define KPOOL_TOOL_STRIDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Elements at base + i0 * strides[0] + i1 * strides[1] + ...; the last dimension has stride 1. */
typedef struct Strided {
    uint64_t base;
    uint32_t rank; /* 1 to 4 */
    uint64_t extents[4];
    uint64_t strides[4];
} Strided;

/* Copies the dense elements into the image; what lies between keeps its bytes. */
void strided_scatter(const Strided *shape, size_t element_size, const void *dense, void *image);
void strided_gather(const Strided *shape, size_t element_size, const void *image, void *dense);

/* The pattern that fills padding: byte i of every image that is to survive. */
void strided_fill_padding(void *image, size_t size);

/* Of a ring and of rows, from a geometry's and a call's numbers; a stride of 0 is dense. */
Strided strided_tail(uint64_t base, uint64_t slots, uint64_t ring, uint64_t head_dim, uint64_t slot_stride,
                     uint64_t plane_stride, uint64_t row_stride);
Strided strided_rows(uint64_t base, uint64_t rows, uint64_t head_dim, uint64_t row_stride);

#endif

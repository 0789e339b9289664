#include "strided.h"

#include <string.h>

typedef enum Direction { TO_IMAGE, TO_DENSE } Direction;

static void copy(const Strided *shape, size_t element_size, char *dense, char *image, Direction direction)
{
    uint64_t rows = 1;
    for (uint32_t d = 0; d + 1 < shape->rank; d++) {
        rows *= shape->extents[d];
    }
    const size_t row_size = (size_t)shape->extents[shape->rank - 1] * element_size;
    for (uint64_t row = 0; row < rows; row++) {
        uint64_t rest = row;
        uint64_t offset = shape->base;
        for (uint32_t d = shape->rank - 1; d-- > 0;) {
            offset += rest % shape->extents[d] * shape->strides[d];
            rest /= shape->extents[d];
        }
        char *in_dense = dense + row * row_size;
        char *in_image = image + offset * element_size;
        if (direction == TO_IMAGE) {
            memcpy(in_image, in_dense, row_size);
        } else {
            memcpy(in_dense, in_image, row_size);
        }
    }
}

void strided_scatter(const Strided *shape, size_t element_size, const void *dense, void *image)
{
    copy(shape, element_size, (char *)(uintptr_t)dense, image, TO_IMAGE);
}

void strided_gather(const Strided *shape, size_t element_size, const void *image, void *dense)
{
    copy(shape, element_size, dense, (char *)(uintptr_t)image, TO_DENSE);
}

void strided_fill_padding(void *image, size_t size)
{
    unsigned char *bytes = image;
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (unsigned char)(0xa5u ^ (i * 29u));
    }
}

Strided strided_tail(uint64_t base, uint64_t slots, uint64_t ring, uint64_t head_dim, uint64_t slot_stride,
                     uint64_t plane_stride, uint64_t row_stride)
{
    const uint64_t row = row_stride != 0 ? row_stride : head_dim;
    const uint64_t plane = plane_stride != 0 ? plane_stride : ring * row;
    const uint64_t slot = slot_stride != 0 ? slot_stride : 2 * plane;
    return (Strided){base, 4, {slots, 2, ring, head_dim}, {slot, plane, row, 1}};
}

Strided strided_rows(uint64_t base, uint64_t rows, uint64_t head_dim, uint64_t row_stride)
{
    return (Strided){base, 2, {rows, head_dim}, {row_stride != 0 ? row_stride : head_dim, 1}};
}

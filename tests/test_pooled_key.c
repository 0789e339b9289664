/* The pooled key of pooled_key.glsl on the device: exact equals pooled_key.c to the bit, and both exact and fast lie
 * where pooled_model.c puts them, over random and hostile channels of every pair of types.
 *
 *   test_pooled_key                   about a million channels, a third of the pairs of types for most pool sizes
 *   test_pooled_key --channels N      about N channels, all of them */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu.h"
#include "generated/pooled_key_test.h"
#include "interface.h"
#include "pooled_key.h"
#include "pooled_model.h"
#include "scenario.h"

/* Channels of one dispatch: fewer of large pools, which cost more and show little more. */
static const struct {
    uint32_t kpool;
    uint32_t channels;
} sizes[] = {{1, 32768}, {2, 32768}, {3, 32768}, {4, 32768},  {5, 32768}, {8, 32768},
             {16, 4096}, {63, 2048}, {64, 2048}, {127, 2048}, {128, 2048}};
#define SIZES (sizeof sizes / sizeof sizes[0])
#define TYPES 3u
#define COMBINATIONS (SIZES * TYPES * TYPES)
#define MOST_MEMBERS (128u * 2048u) /* the largest product above */
#define MOST_CHANNELS 32768u
#define LANES 64u

static uint64_t channels_wanted; /* 0: the short run */

/* Bits of [channels][kpool], a channel's members side by side, as pooled_key takes them. */
typedef struct Pool {
    KpoolType type;
    KpoolType pooled_type;
    uint32_t kpool;
    uint32_t channels;
    uint32_t *gate;
    uint32_t *ape;
    uint32_t *k;
} Pool;

/* What must have happened at least once for the run to have tested anything. */
typedef enum Outcome {
    OUTCOME_FINITE,
    OUTCOME_NAN,
    OUTCOME_POSITIVE_INFINITY,
    OUTCOME_NEGATIVE_INFINITY,
    OUTCOME_POSITIVE_ZERO,
    OUTCOME_NEGATIVE_ZERO,
    OUTCOME_OVERFLOW, /* infinite, and the model is not */
    OUTCOME_FLUSHED,  /* zero, and the model is not */
    OUTCOME_DENORMAL,
    OUTCOME_COUNT
} Outcome;

typedef struct Tally {
    uint64_t channels;
    uint64_t outcomes[TYPES + 1][OUTCOME_COUNT]; /* by pooled_type */
    double worst_ulp[TYPES + 1];                 /* of exact, keys of one sign */
    double worst_exact;                          /* error beyond half a unit, over max |k| */
    double worst_fast;
} Tally;

/* -------------------------------------------------------------------------------- inputs ------- */

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t bits32(Random *random)
{
    return (uint32_t)(random_next(random) >> 32);
}

/* In [-1, 1). */
static float uniform(Random *random)
{
    return (float)((double)bits32(random) * 0x1p-31 - 1.0);
}

/* Sign and fraction at random, exponent between the two. */
static uint32_t between_exponents(Random *random, int low, int high)
{
    const uint32_t exponent = random_between(random, (uint32_t)(low + 127), (uint32_t)(high + 127));
    return (bits32(random) & 0x807fffffu) | exponent << 23;
}

/* f32 bits in the type, cut off: the inputs need not be rounded well, only varied. Specials stay special. */
static uint32_t narrow(KpoolType type, uint32_t bits)
{
    if (type == KPOOL_TYPE_F32) {
        return bits;
    }
    if (type == KPOOL_TYPE_BF16) {
        return bits >> 16;
    }
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x7b800000u) {
        return sign | 0x7c00u | (magnitude > 0x7f800000u ? 1u + (magnitude >> 13 & 0x3feu) : 0u);
    }
    if (magnitude >= 0x47800000u) {
        return sign | 0x7bffu;
    }
    if (magnitude >= 0x38800000u) {
        return sign | (magnitude - 0x38000000u) >> 13;
    }
    const uint32_t shift = 126 - (magnitude >> 23);
    return sign | (shift < 24 ? ((magnitude & 0x7fffffu) | 0x800000u) >> shift : 0u);
}

/* A kind of values that all members of a channel share; member-wise f32 bits. */
typedef struct Kind {
    uint32_t which;
    uint32_t base;   /* a value they are near */
    uint32_t leader; /* the member that differs */
} Kind;

static uint32_t gate_bits(Random *random, const Kind *kind, uint32_t m)
{
    switch (kind->which) {
    case 0:
    case 1:
        return to_bits(uniform(random));
    case 2:
        return to_bits(4.0f * uniform(random));
    case 3:
        return to_bits(80.0f * uniform(random));
    case 4:
        return to_bits(1000.0f * uniform(random));
    case 5: /* equal logits */
        return kind->base;
    case 6: /* around the last weight that is not zero, a few units in the last place to either side */
        return m == kind->leader ? 0 : 0xc2aeac4fu - 8 + (bits32(random) & 15u);
    case 7: /* denormals of f32 and bf16 */
        return bits32(random) & 0x807fffffu;
    case 8: /* around the first special magnitude */
        return (bits32(random) & 1u) << 31 | (0x7b7fffffu + (bits32(random) & 1u));
    case 9: /* masked, mostly all */
        return bits32(random) % 64 == 0 ? 0 : 0xff800000u;
    case 10: /* masked, one not */
        return m == kind->leader ? to_bits(uniform(random)) : 0xfb800000u + (bits32(random) & 0x03ffffffu);
    case 11: /* just below special: the furthest logits */
        return between_exponents(random, 110, 119);
    case 12:
        return 0; /* all is in telling_bits */
    default:
        return bits32(random);
    }
}
#define GATE_KINDS 14u

#define THRESHOLD_KIND 6u
#define TELLING_KIND 12u

/* Logits, found by search, whose weight changes with the last bit of a constant of step 4: of 3fb8aa3b, 3ab511e6,
 * 3c091d10 and 3d2aac7a, which next to no others show. */
static uint32_t telling_bits(Random *random)
{
    static const uint32_t logits[] = {0xc2992f7fu, 0xc28e185du, 0xc278258eu, 0xc26d0e6bu, 0xc25f3183u, 0xc24e8ed1u,
                                      0xc259e41cu, 0xc243b5d9u, 0xc1cfbd50u, 0xc1b98f0du, 0xc07e604du, 0xc025a741u,
                                      0xc2a47c8bu, 0xc2a6fc79u, 0xc2a9c091u, 0xc2a9c511u, 0xc0a64d97u, 0xc046b527u,
                                      0xbe805d97u, 0xbe6c9517u};
    return logits[bits32(random) % (sizeof logits / sizeof logits[0])];
}

static uint32_t ape_bits(Random *random, const Kind *kind, uint32_t gate)
{
    switch (kind->which) {
    case 0:
    case 1:
        return to_bits(uniform(random));
    case 2:
    case 3:
        return 0;
    case 4:
        return to_bits(100.0f * uniform(random));
    case 5:
        return bits32(random) & 0x807fffffu;
    case 6: /* what the gate holds, negated, give or take its last bits: denormal or zero sums */
        return gate ^ 0x80000000u ^ (bits32(random) & 3u);
    case 7:
        return between_exponents(random, -126, -100);
    default:
        return bits32(random) % 8 == 0 ? bits32(random) : to_bits(uniform(random));
    }
}
#define APE_KINDS 9u

static uint32_t k_bits(Random *random, const Kind *kind, uint32_t m)
{
    switch (kind->which) {
    case 0:
    case 1:
        return to_bits(uniform(random));
    case 2: /* one sign */
        return to_bits(1.5f + 0.5f * uniform(random)) | (kind->base & 0x80000000u);
    case 3:
        return to_bits(1000.0f * uniform(random));
    case 4: /* the largest that are not special */
        return between_exponents(random, 117, 119);
    case 5: /* around 2^-102 */
        return between_exponents(random, -105, -100);
    case 6: /* almost cancelling: the base and its negative, the last bits apart */
        return (kind->base & 0x7fffffffu) ^ (m & 1u) << 31 ^ (bits32(random) & 3u);
    case 7: /* 2^-102 and its negative, the last bits apart: sums down to 2^-125 */
        return 0x0c800000u + (bits32(random) & 7u) + (m & 1u) * 0x80000000u;
    case 8: /* around the overflow of f16 */
        return 0x477f0000u + (bits32(random) & 0x1ffffu) + (bits32(random) & 0x80000000u);
    case 9: /* around f16's denormals */
        return between_exponents(random, -26, -12);
    case 10: /* half-way between two numbers of f16, and next to it */
        return ((bits32(random) % 16 << 23) + 0x3c000000u) | (bits32(random) & 0x807fe000u) |
               (0x1000u + bits32(random) % 3 - 1);
    case 11: /* half-way between two numbers of bf16 */
        return ((bits32(random) % 16 << 23) + 0x3c000000u) | (bits32(random) & 0x807f0000u) |
               (0x8000u + bits32(random) % 3 - 1);
    case 12:
        return bits32(random) & 0x807fffffu;
    case 13:
        return bits32(random) & 0x80000000u;
    case 14: /* any exponents together */
        return between_exponents(random, -126, 119);
    case 15: /* half-way between denormals of f16 */
        return (bits32(random) & 0x80000000u) | to_bits((float)(bits32(random) % 4096) * 0x1p-25f);
    case 16: /* one zero apart from 2^-102 and its negative: a third of 2^-125 */
        return m == kind->leader ? 0 : 0x0c800000u + (bits32(random) & 1u) + (m & 1u) * 0x80000000u;
    case 17: /* infinities of one sign */
        return m == kind->leader ? (kind->base & 0x80000000u) | 0x7f800000u : to_bits(uniform(random));
    default:
        return bits32(random);
    }
}
#define K_KINDS 19u

static uint32_t special_bits(Random *random)
{
    static const uint32_t specials[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc12345u, 0x7f800001u, 0xffffffffu,
                                        0x7b800000u, 0xfb800000u, 0x7b7fffffu, 0xfb7fffffu, 0x7f7fffffu, 0xff7fffffu,
                                        0x80000000u, 0x00000001u, 0x807fffffu, 0x00800000u};
    return specials[bits32(random) % (sizeof specials / sizeof specials[0])];
}

static Kind choose(Random *random, uint32_t kinds, uint32_t kpool)
{
    /* Half of the channels are of the first, plain kind of each tensor. */
    return (Kind){
        .which = bits32(random) % 2 == 0 ? 0 : bits32(random) % kinds,
        .base = to_bits(8.0f * uniform(random)),
        .leader = bits32(random) % kpool,
    };
}

static void fill(Pool *pool, Random *random)
{
    const uint32_t P = pool->kpool;
    for (uint32_t c = 0; c < pool->channels; c++) {
        const Kind gate_kind = choose(random, GATE_KINDS, P);
        const Kind ape_kind = choose(random, APE_KINDS, P);
        const Kind k_kind = choose(random, K_KINDS, P);
        uint32_t *gate = pool->gate + (size_t)c * P;
        uint32_t *ape = pool->ape + (size_t)c * P;
        uint32_t *k = pool->k + (size_t)c * P;
        for (uint32_t m = 0; m < P; m++) {
            const uint32_t wide = gate_bits(random, &gate_kind, m);
            gate[m] = narrow(pool->type, wide);
            k[m] = narrow(pool->type, k_bits(random, &k_kind, m));
            ape[m] = ape_bits(random, &ape_kind, wide);
            if (gate_kind.which == THRESHOLD_KIND) {
                ape[m] = 0;
            } else if (gate_kind.which == TELLING_KIND) {
                /* In ape, since 2-byte types cannot hold them; the member of weight 1 must not drown the others. */
                const bool leads = m == gate_kind.leader;
                ape[m] = leads ? 0 : telling_bits(random);
                k[m] = leads ? 0 : narrow(pool->type, between_exponents(random, 12, 100));
            }
        }
        if (bits32(random) % 16 == 0) {
            const uint32_t m = bits32(random) % P;
            switch (bits32(random) % 3) {
            case 0:
                gate[m] = narrow(pool->type, special_bits(random));
                break;
            case 1:
                ape[m] = special_bits(random);
                break;
            default:
                k[m] = narrow(pool->type, special_bits(random));
                break;
            }
        }
    }
}

static uint32_t *allocate_words(size_t words)
{
    uint32_t *memory = calloc(words, sizeof *memory);
    assert_non_null(memory);
    return memory;
}

static Pool make_pool(KpoolType type, KpoolType pooled_type, uint32_t kpool, uint32_t channels)
{
    Pool pool = {.type = type, .pooled_type = pooled_type, .kpool = kpool, .channels = channels};
    if (type == KPOOL_TYPE_F32 && pooled_type == KPOOL_TYPE_F32) {
        pool.channels--; /* only here it may be odd */
    }
    const size_t words = (size_t)channels * kpool;
    assert_true(words <= MOST_MEMBERS && channels <= MOST_CHANNELS);
    pool.gate = allocate_words(words);
    pool.ape = allocate_words(words);
    pool.k = allocate_words(words);
    return pool;
}

static void free_pool(Pool *pool)
{
    free(pool->gate);
    free(pool->ape);
    free(pool->k);
}

/* -------------------------------------------------------------------------------- device ------- */

enum { BUFFER_GATE, BUFFER_APE, BUFFER_K, BUFFER_POOLED, BUFFER_COUNT };

typedef struct Rig {
    Gpu gpu;
    VkShaderModule module;
    VkDescriptorSetLayout setLayout;
    VkPipelineLayout layout;
    VkDescriptorPool pool;
    VkDescriptorSet set;
    GpuBuffer buffers[BUFFER_COUNT];
} Rig;

#define MUST(call) assert_int_equal((call), VK_SUCCESS)

static void must(Rig *rig, bool succeeded)
{
    if (!succeeded) {
        fail_msg("%s", rig->gpu.error);
    }
}

static void open_rig(Rig *rig)
{
    must(rig, gpu_open(&rig->gpu, NULL));
    const VkDevice device = rig->gpu.device;
    const VkShaderModuleCreateInfo moduleInfo = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = sizeof kpool_pooled_key_test_wide_4,
        .pCode = kpool_pooled_key_test_wide_4,
    };
    MUST(vkCreateShaderModule(device, &moduleInfo, NULL, &rig->module));
    VkDescriptorSetLayoutBinding bindings[BUFFER_COUNT];
    for (uint32_t i = 0; i < BUFFER_COUNT; i++) {
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    }
    const VkDescriptorSetLayoutCreateInfo setInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = BUFFER_COUNT,
        .pBindings = bindings,
    };
    MUST(vkCreateDescriptorSetLayout(device, &setInfo, NULL, &rig->setLayout));
    const VkPipelineLayoutCreateInfo layoutInfo = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &rig->setLayout,
    };
    MUST(vkCreatePipelineLayout(device, &layoutInfo, NULL, &rig->layout));
    const VkDescriptorPoolSize poolSize = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, BUFFER_COUNT};
    const VkDescriptorPoolCreateInfo poolInfo = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 1,
        .pPoolSizes = &poolSize,
    };
    MUST(vkCreateDescriptorPool(device, &poolInfo, NULL, &rig->pool));
    const VkDescriptorSetAllocateInfo allocation = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = rig->pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &rig->setLayout,
    };
    MUST(vkAllocateDescriptorSets(device, &allocation, &rig->set));
    for (uint32_t i = 0; i < BUFFER_COUNT; i++) {
        const VkDeviceSize words = i == BUFFER_POOLED ? MOST_CHANNELS : MOST_MEMBERS;
        must(rig, gpu_create_buffer(&rig->gpu, words * sizeof(uint32_t), &rig->buffers[i]));
        const VkDescriptorBufferInfo buffer = {rig->buffers[i].buffer, 0, VK_WHOLE_SIZE};
        const VkWriteDescriptorSet write = {
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = rig->set,
            .dstBinding = i,
            .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &buffer,
        };
        vkUpdateDescriptorSets(device, 1, &write, 0, NULL);
    }
}

static void close_rig(Rig *rig)
{
    const VkDevice device = rig->gpu.device;
    for (uint32_t i = 0; i < BUFFER_COUNT; i++) {
        gpu_destroy_buffer(&rig->gpu, &rig->buffers[i]);
    }
    vkDestroyDescriptorPool(device, rig->pool, NULL);
    vkDestroyPipelineLayout(device, rig->layout, NULL);
    vkDestroyDescriptorSetLayout(device, rig->setLayout, NULL);
    vkDestroyShaderModule(device, rig->module, NULL);
    gpu_close(&rig->gpu);
    assert_int_equal(rig->gpu.validationMessages, 0);
}

static VkPipeline create_pipeline(Rig *rig, const Pool *pool, uint32_t numerics)
{
    const struct {
#define FIELD(id, name) uint32_t name;
        KPOOL_SPECIALIZATION(FIELD)
#undef FIELD
    } values = {
        .local_size = LANES,
        .head_dim = pool->channels,
        .kpool = pool->kpool,
        .element_size = kpoolTypeSize(pool->type),
        .type = (uint32_t)pool->type,
        .pooled_type = (uint32_t)pool->pooled_type,
        .numerics = numerics,
    };
    static const VkSpecializationMapEntry entries[] = {
#define ENTRY(id, name) {id, id * sizeof(uint32_t), sizeof(uint32_t)},
        KPOOL_SPECIALIZATION(ENTRY)
#undef ENTRY
    };
    const VkSpecializationInfo specialization = {
        .mapEntryCount = sizeof entries / sizeof entries[0],
        .pMapEntries = entries,
        .dataSize = sizeof values,
        .pData = &values,
    };
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = rig->module,
                  .pName = "main",
                  .pSpecializationInfo = &specialization},
        .layout = rig->layout,
    };
    VkPipeline pipeline = VK_NULL_HANDLE;
    MUST(vkCreateComputePipelines(rig->gpu.device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline));
    return pipeline;
}

static void store(void *elements, KpoolType type, size_t i, uint32_t bits)
{
    if (type == KPOOL_TYPE_F32) {
        ((uint32_t *)elements)[i] = bits;
    } else {
        ((uint16_t *)elements)[i] = (uint16_t)bits;
    }
}

static uint32_t load(const void *elements, KpoolType type, size_t i)
{
    return type == KPOOL_TYPE_F32 ? ((const uint32_t *)elements)[i] : ((const uint16_t *)elements)[i];
}

/* The tensors are [kpool, channels] on the device. */
static void upload(Rig *rig, const Pool *pool)
{
    for (uint32_t m = 0; m < pool->kpool; m++) {
        for (uint32_t c = 0; c < pool->channels; c++) {
            const size_t from = (size_t)c * pool->kpool + m;
            const size_t to = (size_t)m * pool->channels + c;
            store(rig->buffers[BUFFER_GATE].mapped, pool->type, to, pool->gate[from]);
            store(rig->buffers[BUFFER_K].mapped, pool->type, to, pool->k[from]);
            store(rig->buffers[BUFFER_APE].mapped, KPOOL_TYPE_F32, to, pool->ape[from]);
        }
    }
    for (uint32_t i = 0; i < BUFFER_POOLED; i++) {
        gpu_flush(&rig->gpu, &rig->buffers[i]);
    }
}

/* keys: [channels]. */
static void run(Rig *rig, const Pool *pool, VkPipeline pipeline, uint32_t *keys)
{
    memset(rig->buffers[BUFFER_POOLED].mapped, 0xa5, (size_t)rig->buffers[BUFFER_POOLED].size);
    gpu_flush(&rig->gpu, &rig->buffers[BUFFER_POOLED]);
    const VkCommandBuffer commandBuffer = gpu_begin(&rig->gpu);
    must(rig, commandBuffer != VK_NULL_HANDLE);
    vkCmdBindPipeline(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(commandBuffer, VK_PIPELINE_BIND_POINT_COMPUTE, rig->layout, 0, 1, &rig->set, 0, NULL);
    const uint32_t pairs = (pool->channels + 1) / 2;
    vkCmdDispatch(commandBuffer, (pairs + LANES - 1) / LANES, 1, 1);
    must(rig, gpu_end(&rig->gpu, commandBuffer));
    must(rig, gpu_submit(&rig->gpu, commandBuffer));
    gpu_free_command_buffer(&rig->gpu, commandBuffer);
    gpu_invalidate(&rig->gpu, &rig->buffers[BUFFER_POOLED]);
    for (uint32_t c = 0; c < pool->channels; c++) {
        keys[c] = load(rig->buffers[BUFFER_POOLED].mapped, pool->pooled_type, c);
    }
}

/* ------------------------------------------------------------------------------- verdicts ------ */

static void fail_channel(const Pool *pool, uint32_t c, const char *what, uint32_t found, double expected)
{
    print_error("type %d, pooled_type %d, kpool %u, channel %u: %s is %08x, expected %.9g\n", (int)pool->type,
                (int)pool->pooled_type, pool->kpool, c, what, found, expected);
    for (uint32_t m = 0; m < pool->kpool && m < 8; m++) {
        const size_t i = (size_t)c * pool->kpool + m;
        print_error("  gate[%u] %08x  ape %08x  k %08x\n", m, pool->gate[i], pool->ape[i], pool->k[i]);
    }
    fail();
}

/* The first place where they differ, or count. */
static uint32_t first_difference(const uint32_t *a, const uint32_t *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (a[i] != b[i]) {
            return i;
        }
    }
    return count;
}

static uint32_t nan_of(KpoolType type)
{
    return type == KPOOL_TYPE_F32 ? 0x7fc00000u : type == KPOOL_TYPE_F16 ? 0x7e00u : 0x7fc0u;
}

/* How far the key is from the model, beyond half a unit in the last place and `slack`, over max |k|. A NaN where one
 * is wrong, or an infinity; 0 where the model is special and the key the same. */
static double excess(const Pool *pool, const PooledModel *model, uint32_t key, double slack)
{
    const double value = pooled_model_decode(pool->pooled_type, key);
    if (isnan(model->value)) {
        return key == nan_of(pool->pooled_type) ? 0.0 : (double)NAN;
    }
    if (isinf(model->value)) {
        return value == model->value ? 0.0 : (double)NAN;
    }
    /* Rounding treats f16's infinity as the number after its largest. */
    const double number = isinf(value) && pool->pooled_type == KPOOL_TYPE_F16 ? copysign(65536.0, value) : value;
    const double limit = pool->pooled_type == KPOOL_TYPE_F16 ? 65535.0 : HUGE_VAL;
    const double clipped = fmin(fabs(model->value), limit);
    const double error = isinf(value) && fabs(model->value) > 65536.0 ? 0.0 : fabs(number - model->value);
    const double beyond = error - 0.5 * pooled_model_ulp(pool->pooled_type, clipped) - slack;
    return beyond <= 0.0 ? 0.0 : beyond / model->largest;
}

static void tally_outcome(Tally *tally, const Pool *pool, const PooledModel *model, uint32_t key)
{
    const double value = pooled_model_decode(pool->pooled_type, key);
    const bool negative = signbit(value) != 0;
    const double smallest = pool->pooled_type == KPOOL_TYPE_F16 ? 0x1p-14 : 0x1p-126;
    uint64_t *outcomes = tally->outcomes[pool->pooled_type];
    if (isnan(value)) {
        outcomes[OUTCOME_NAN]++;
    } else if (isinf(value)) {
        outcomes[isfinite(model->value) ? OUTCOME_OVERFLOW
                 : negative             ? OUTCOME_NEGATIVE_INFINITY
                                        : OUTCOME_POSITIVE_INFINITY]++;
    } else if (value == 0.0) {
        outcomes[negative ? OUTCOME_NEGATIVE_ZERO : OUTCOME_POSITIVE_ZERO]++;
        outcomes[OUTCOME_FLUSHED] += model->value != 0.0;
    } else {
        outcomes[fabs(value) < smallest ? OUTCOME_DENORMAL : OUTCOME_FINITE]++;
    }
}

/* Errors of keys that do not cancel, in units in the last place: of one sign, and none more than 16 times another, so
 * that the relative error of a small weight does not count for more than it is. */
static void tally_ulp(Tally *tally, const Pool *pool, uint32_t c, const PooledModel *model, uint32_t key)
{
    const double value = pooled_model_decode(pool->pooled_type, key);
    if (!isfinite(model->value) || !isfinite(value) || model->largest < 0x1p-60) {
        return;
    }
    for (uint32_t m = 0; m < pool->kpool; m++) {
        const double k = pooled_model_decode(pool->type, pool->k[(size_t)c * pool->kpool + m]);
        if ((k < 0.0) != (model->value < 0.0) || fabs(k) * 16.0 < model->largest) {
            return;
        }
    }
    const double error = fabs(value - model->value) / pooled_model_ulp(pool->pooled_type, model->value);
    tally->worst_ulp[pool->pooled_type] = fmax(tally->worst_ulp[pool->pooled_type], error);
}

/* Where fast is VK_NULL_HANDLE exact is checked alone. */
static void check_pool(Rig *rig, const Pool *pool, VkPipeline exact, VkPipeline fast, Tally *tally)
{
    uint32_t *found = allocate_words(pool->channels);
    uint32_t *found_fast = allocate_words(pool->channels);
    uint32_t *expected = allocate_words(pool->channels);
    upload(rig, pool);
    run(rig, pool, exact, found);
    if (fast != VK_NULL_HANDLE) {
        run(rig, pool, fast, found_fast);
    }
    for (uint32_t c = 0; c < pool->channels; c++) {
        const size_t i = (size_t)c * pool->kpool;
        expected[c] =
            pooled_key(pool->type, pool->pooled_type, pool->kpool, pool->gate + i, pool->ape + i, pool->k + i);
    }
    const uint32_t at = first_difference(found, expected, pool->channels);
    if (at < pool->channels) {
        fail_channel(pool, at, "exact", found[at], pooled_model_decode(pool->pooled_type, expected[at]));
    }
    for (uint32_t c = 0; c < pool->channels; c++) {
        const size_t i = (size_t)c * pool->kpool;
        const PooledModel model = pooled_model(pool->type, pool->kpool, pool->gate + i, pool->ape + i, pool->k + i);
        /* exact gives up every product below 2^-102. */
        const double of_exact = excess(pool, &model, found[c], 0x1p-126 + pool->kpool * 0x1p-102);
        if (!(of_exact <= 2e-6)) {
            fail_channel(pool, c, "exact", found[c], model.value);
        }
        tally->worst_exact = fmax(tally->worst_exact, of_exact);
        if (fast != VK_NULL_HANDLE) {
            const double of_fast = excess(pool, &model, found_fast[c], 0x1p-126);
            if (!(of_fast <= 2e-6)) {
                fail_channel(pool, c, "fast", found_fast[c], model.value);
            }
            tally->worst_fast = fmax(tally->worst_fast, of_fast);
        }
        tally_ulp(tally, pool, c, &model, found[c]);
        tally_outcome(tally, pool, &model, found[c]);
    }
    tally->channels += pool->channels;
    free(found);
    free(found_fast);
    free(expected);
}

static void report(const Rig *rig, const Tally *tally)
{
    static const char *const names[OUTCOME_COUNT] = {"finite", "NaN",      "+infinity", "-infinity", "+0",
                                                     "-0",     "overflow", "flushed",   "denormal"};
    static const char *const types[TYPES + 1] = {"", "f32", "f16", "bf16"};
    print_message("%s: %llu channels equal to the reference\n", rig->gpu.properties.deviceName,
                  (unsigned long long)tally->channels);
    for (uint32_t type = 1; type <= TYPES; type++) {
        print_message("  %-4s exact at most %.4f units in the last place off;", types[type], tally->worst_ulp[type]);
        for (uint32_t i = 0; i < OUTCOME_COUNT; i++) {
            print_message(" %s %llu", names[i], (unsigned long long)tally->outcomes[type][i]);
        }
        print_message("\n");
    }
    print_message("  beyond half a unit, over max |k|: exact %.3g, fast %.3g (2e-6 allowed)\n", tally->worst_exact,
                  tally->worst_fast);
}

/* Compiling is what a short run spends its time on, so it leaves out two thirds of the pairs of types for every pool
 * size but the usual one, others for each size, and most of fast. */
static void test_channels(void **state)
{
    (void)state;
    Rig rig = {0};
    open_rig(&rig);
    Tally tally = {0};
    Random random = {.state = 7};
    uint64_t channels = 0;
    for (uint32_t i = 0; i < SIZES; i++) {
        channels += TYPES * TYPES * sizes[i].channels;
    }
    const uint64_t rounds = channels_wanted / channels + 1;
    for (uint32_t i = 0; i < COMBINATIONS; i++) {
        const uint32_t size = i / (TYPES * TYPES);
        const KpoolType type = (KpoolType)(1 + i % TYPES);
        const KpoolType pooled_type = (KpoolType)(1 + i / TYPES % TYPES);
        const bool whole = channels_wanted != 0 || sizes[size].kpool == 4;
        if (!whole && (i % TYPES + i / TYPES + size) % TYPES != 0) {
            continue;
        }
        Pool pool = make_pool(type, pooled_type, sizes[size].kpool, sizes[size].channels);
        const VkPipeline exact = create_pipeline(&rig, &pool, 0);
        const VkPipeline fast = whole || sizes[size].kpool == 64 ? create_pipeline(&rig, &pool, 1) : VK_NULL_HANDLE;
        for (uint64_t round = 0; round < rounds; round++) {
            fill(&pool, &random);
            check_pool(&rig, &pool, exact, fast, &tally);
        }
        vkDestroyPipeline(rig.gpu.device, exact, NULL);
        vkDestroyPipeline(rig.gpu.device, fast, NULL);
        free_pool(&pool);
    }
    report(&rig, &tally);
    for (uint32_t type = 1; type <= TYPES; type++) {
        for (uint32_t i = 0; i < OUTCOME_COUNT; i++) {
            const bool possible = i == OUTCOME_OVERFLOW || i == OUTCOME_DENORMAL ? type == KPOOL_TYPE_F16 : true;
            if (possible != (tally.outcomes[type][i] != 0)) {
                fail_msg("outcome %u of pooled_type %u came %llu times", i, type,
                         (unsigned long long)tally.outcomes[type][i]);
            }
        }
    }
    close_rig(&rig);
}

/* The comparison finds one bit, and the bound one unit in the last place too much. */
static void test_finds_faults(void **state)
{
    (void)state;
    uint32_t a[100];
    uint32_t b[100];
    Random random = {.state = 1};
    for (uint32_t i = 0; i < 100; i++) {
        a[i] = b[i] = bits32(&random);
    }
    assert_int_equal(first_difference(a, b, 100), 100);
    b[57] ^= 1u << 31;
    assert_int_equal(first_difference(a, b, 100), 57);

    const uint32_t gate[2] = {to_bits(0.25f), to_bits(-1.0f)};
    const uint32_t ape[2] = {0, to_bits(0.5f)};
    const uint32_t k[2] = {to_bits(3.0f), to_bits(5.0f)};
    const Pool pool = {.type = KPOOL_TYPE_F32, .pooled_type = KPOOL_TYPE_BF16, .kpool = 2};
    const PooledModel model = pooled_model(KPOOL_TYPE_F32, 2, gate, ape, k);
    const uint32_t key = pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_BF16, 2, gate, ape, k);
    assert_true(excess(&pool, &model, key, 0.0) <= 2e-6);
    assert_false(excess(&pool, &model, key + 1, 0.0) <= 2e-6);
    assert_false(excess(&pool, &model, key - 1, 0.0) <= 2e-6);
    assert_false(excess(&pool, &model, 0x7f80u, 0.0) <= 2e-6);
    assert_false(excess(&pool, &model, 0x7fc0u, 0.0) <= 2e-6);
}

/* A few keys worked out by hand, for the reference itself. */
static void test_by_hand(void **state)
{
    (void)state;
    const uint32_t zero[4] = {0};
    const uint32_t k[4] = {to_bits(1.0f), to_bits(2.0f), to_bits(3.0f), to_bits(5.0f)};
    assert_int_equal(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_F32, 4, zero, zero, k), to_bits(2.75f));
    assert_int_equal(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_F16, 4, zero, zero, k), 0x4180);
    assert_int_equal(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_BF16, 4, zero, zero, k), 0x4030);
    /* 2^-25 is half of f16's smallest number: to even, which is zero; anything more is that number. */
    const uint32_t half[1] = {0x33000000u};
    const uint32_t above[1] = {0x33000001u};
    const uint32_t below[1] = {0xb3000000u};
    assert_int_equal(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_F16, 1, zero, zero, half), 0);
    assert_int_equal(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_F16, 1, zero, zero, above), 1);
    assert_int_equal(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_F16, 1, zero, zero, below), 0x8000);
    const uint32_t largest[1] = {to_bits(65519.996f)};
    const uint32_t overflow[1] = {to_bits(-65520.0f)};
    assert_int_equal(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_F16, 1, zero, zero, largest), 0x7bff);
    assert_int_equal(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_F16, 1, zero, zero, overflow), 0xfc00);
    /* A masked infinity is NaN, an unmasked one itself, two of different sign NaN again. */
    const uint32_t mask[2] = {0, 0xff800000u};
    const uint32_t second[2] = {0, 0x7f800000u};
    const uint32_t both[2] = {0xff800000u, 0x7f800000u};
    assert_int_equal(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_F32, 2, mask, zero, second), 0x7fc00000u);
    assert_int_equal(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_F32, 2, zero, zero, second), 0x7f800000u);
    assert_int_equal(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_BF16, 2, zero, zero, both), 0x7fc0u);
    assert_true(isnan(from_bits(pooled_key(KPOOL_TYPE_F32, KPOOL_TYPE_F32, 2, zero, both, zero))));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        char *end = NULL;
        errno = 0;
        const unsigned long long wanted = argc == 3 ? strtoull(argv[2], &end, 10) : 0;
        if (argc != 3 || strcmp(argv[1], "--channels") != 0 || errno != 0 || wanted == 0 || *end != '\0') {
            fprintf(stderr, "usage: test_pooled_key [--channels N]\n");
            return 2;
        }
        channels_wanted = wanted;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_finds_faults),
        cmocka_unit_test(test_channels),
    };
    return cmocka_run_group_tests_name("pooled_key", tests, NULL, NULL);
}

// The C interface: checks every size, then calls the table of kernels.
#include "fewbits.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "crc.h"
#include "portable/portable.h"

using namespace fewbits;

extern "C" {

uint32_t fewbits_abi(void) { return FEWBITS_ABI; }

int fewbits_crc32c_is_hardware(void) { return kernels().common.crc32c != portable_common.crc32c; }

void fewbits_advise_huge([[maybe_unused]] void *data, [[maybe_unused]] size_t size) {
#if defined(__linux__)
    constexpr uintptr_t page = 4096;
    const auto begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
    const auto end = (reinterpret_cast<uintptr_t>(data) + size) / page * page;
    if (begin < end) {
        madvise(reinterpret_cast<void *>(begin), end - begin,
                MADV_HUGEPAGE); // a hint: failure costs only speed
    }
#endif
}

uint32_t fewbits_crc32c(uint32_t crc, const uint8_t *data, size_t size) {
    return kernels().common.crc32c(crc, {data, size});
}

uint32_t fewbits_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b) {
    return crc_multiply(crc_shift(size_b), crc_a) ^ crc_b;
}

int fewbits_words(const uint32_t key[4], uint64_t first, uint32_t *out, size_t count) {
    kernels().common.words({{key[0], key[1], key[2], key[3]}, first}, {out, count});
    return FEWBITS_OK;
}

int fewbits_pack(const uint16_t *codes, size_t count, int width, uint8_t *packed, size_t size) {
    if (width < 1 || width > 16) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (count > SIZE_MAX / 16 || size != packed_size(count, width)) {
        return FEWBITS_BAD_SIZE;
    }
    kernels().common.pack({codes, count}, width, {packed, size});
    return FEWBITS_OK;
}

int fewbits_unpack(const uint8_t *packed, size_t size, int width, uint32_t bound, uint16_t *codes,
                   size_t count) {
    if (width < 1 || width > 16 || bound < 1 || bound > (1u << width)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (count > SIZE_MAX / 16 || size != packed_size(count, width)) {
        return FEWBITS_BAD_SIZE;
    }
    return kernels().common.unpack({packed, size}, width, bound, {codes, count});
}
}

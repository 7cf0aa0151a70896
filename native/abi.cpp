// The C interface: checks every size, then calls the table of kernels.
#include "fewbits.h"

#include <algorithm>
#include <bit>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "crc.h"
#include "kernels.h"

static_assert(std::endian::native == std::endian::little,
              "the kernels store words as the wire wants them");

namespace fewbits {
namespace {

// Calls `use` with a value of the format's type; BAD_ARGUMENT for an unknown dtype.
template <class Use> int with_format(int dtype, Use use) {
    switch (dtype) {
    case FEWBITS_FLOAT32:
        return use(Float32{});
    case FEWBITS_FLOAT64:
        return use(Float64{});
    case FEWBITS_FLOAT16:
        return use(Float16{});
    case FEWBITS_BFLOAT16:
        return use(Bfloat16{});
    default:
        return FEWBITS_BAD_ARGUMENT;
    }
}

size_t item_size(int dtype) {
    return dtype == FEWBITS_FLOAT64 ? 8 : dtype == FEWBITS_FLOAT32 ? 4 : 2;
}

bool is_dtype(int dtype) { return dtype >= FEWBITS_FLOAT32 && dtype <= FEWBITS_BFLOAT16; }

// Runs `work(unit, format)` over a table of units whose planes have the right sizes.
template <class Work>
int each_unit(int dtype, fewbits_natural_unit *units, size_t count, Work work) {
    return with_format(dtype, [&]<class F>(F format) -> int {
        for (fewbits_natural_unit &unit : std::span(units, count)) {
            unit.tally = {0, 0};
            if (unit.count > SIZE_MAX / 16 ||
                unit.exponents_size != packed_size(unit.count, F::exponent) ||
                unit.signs_size != packed_size(unit.count, 1)) {
                return FEWBITS_BAD_SIZE;
            }
            const fewbits_status status = work(unit, format);
            if (status != FEWBITS_OK) {
                return status;
            }
        }
        return FEWBITS_OK;
    });
}

} // namespace
} // namespace fewbits

using namespace fewbits;

extern "C" {

uint32_t fewbits_abi(void) { return FEWBITS_ABI; }

int fewbits_crc32c_is_hardware(void) { return kernels().crc32c != scalar_kernels.crc32c; }

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
    return kernels().crc32c(crc, {data, size});
}

uint32_t fewbits_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b) {
    return crc_multiply(crc_shift(size_b), crc_a) ^ crc_b;
}

int fewbits_words(const uint32_t key[4], uint64_t first, uint32_t *out, size_t count) {
    kernels().words({{key[0], key[1], key[2], key[3]}, first}, {out, count});
    return FEWBITS_OK;
}

int fewbits_pack(const uint16_t *codes, size_t count, int width, uint8_t *packed, size_t size) {
    if (width < 1 || width > 16) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (count > SIZE_MAX / 16 || size != packed_size(count, width)) {
        return FEWBITS_BAD_SIZE;
    }
    kernels().pack({codes, count}, width, {packed, size});
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
    return kernels().unpack({packed, size}, width, bound, {codes, count});
}

int fewbits_natural_encode(int dtype, int rounding, fewbits_natural_unit *units, size_t count) {
    if (rounding != FEWBITS_STOCHASTIC && rounding != FEWBITS_NEAREST) {
        return FEWBITS_BAD_ARGUMENT;
    }
    return each_unit(dtype, units, count, [&]<class F>(fewbits_natural_unit &unit, F) {
        const Stream stream = {{unit.key[0], unit.key[1], unit.key[2], unit.key[3]}, unit.first};
        kernels().of<F>().natural_encode(input<typename F::Bits>(unit.values, unit.count), stream,
                                         static_cast<fewbits_rounding>(rounding),
                                         {unit.exponents, unit.exponents_size},
                                         {unit.signs, unit.signs_size}, unit.tally);
        return FEWBITS_OK;
    });
}

int fewbits_natural_decode(int dtype, fewbits_natural_unit *units, size_t count) {
    return each_unit(dtype, units, count, []<class F>(fewbits_natural_unit &unit, F) {
        return kernels().of<F>().natural_decode(
            {unit.exponents, unit.exponents_size}, {unit.signs, unit.signs_size},
            output<typename F::Bits>(unit.values, unit.count), unit.tally);
    });
}

int fewbits_natural_accumulate(int dtype, fewbits_natural_unit *units, size_t count) {
    return each_unit(dtype, units, count, []<class F>(fewbits_natural_unit &unit, F) {
        using Total = typename FormatKernels<F>::Total;
        return kernels().of<F>().natural_accumulate(
            {unit.exponents, unit.exponents_size}, {unit.signs, unit.signs_size},
            output<Total>(unit.values, unit.count), unit.tally);
    });
}

int fewbits_cast(int from, const void *input, size_t input_size, int to, void *output,
                 size_t output_size, size_t count, fewbits_tally *tally) {
    if (!is_dtype(from) || !is_dtype(to)) {
        return FEWBITS_BAD_ARGUMENT;
    }
    if (count > SIZE_MAX / 16 || input_size != count * item_size(from) ||
        output_size != count * item_size(to)) {
        return FEWBITS_BAD_SIZE;
    }
    *tally = {0, 0};
    const auto run = [&]<class From, class To>(void (*cast)(In<From>, Out<To>, fewbits_tally &)) {
        cast(fewbits::input<From>(input, count), fewbits::output<To>(output, count), *tally);
        return FEWBITS_OK;
    };
    if (from == to) {
        return with_format(from, [&]<class F>(F) -> int { return run(kernels().of<F>().copy); });
    }
    if (from == FEWBITS_FLOAT32 && to == FEWBITS_FLOAT16) {
        return run(kernels().float32_to_float16);
    }
    if (from == FEWBITS_FLOAT32 && to == FEWBITS_BFLOAT16) {
        return run(kernels().float32_to_bfloat16);
    }
    if (from == FEWBITS_FLOAT16 && to == FEWBITS_FLOAT32) {
        return run(kernels().float16_to_float32);
    }
    if (from == FEWBITS_BFLOAT16 && to == FEWBITS_FLOAT32) {
        return run(kernels().bfloat16_to_float32);
    }
    cast_any(from, input, to, output, count, *tally);
    return FEWBITS_OK;
}
}

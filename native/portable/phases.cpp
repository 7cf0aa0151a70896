// Phases of a dither, one code at a time.
#include "phases.h"

#include "portable/portable.h"

namespace fewbits {
namespace {

void find(const Stream &dither, Bytes phases) {
    for (size_t i = 0; i < phases.size(); ++i) {
        const uint64_t index = dither.first + i;
        const Segment segment(dither.key, static_cast<uint32_t>(index >> 32));
        phases[i] = phase_of(segment.word(static_cast<uint32_t>(index)));
    }
}

void fold(ConstBytes codes, const uint8_t *signs, ConstBytes phases, Bytes symbols) {
    for (size_t i = 0; i < codes.size(); ++i) {
        symbols[i] = folded_symbol(codes[i], (signs[i / 8] >> (i % 8) & 1) != 0, phases[i]);
    }
}

void unfold(ConstBytes symbols, ConstBytes phases, uint8_t *codes, uint8_t *signs) {
    std::fill_n(signs, packed_size(symbols.size(), 1), uint8_t{0});
    for (size_t i = 0; i < symbols.size(); ++i) {
        const bool negative = unfolded_sign(symbols[i], phases[i]);
        signs[i / 8] = static_cast<uint8_t>(signs[i / 8] | negative << (i % 8));
        codes[i] = static_cast<uint8_t>((symbols[i] + 1) / 2);
    }
}

const uint8_t *decode(ConstBytes data, const RansDecodeTable *tables, std::span<uint32_t> states,
                      ConstBytes phases, Bytes symbols) {
    return rans_decode_phases(data.data(), data.data() + data.size(), tables, states, phases,
                              symbols, 0);
}

} // namespace

constinit const PhaseKernels portable_phases = {
    .find = find,
    .fold = fold,
    .unfold = unfold,
    .decode = decode,
};

} // namespace fewbits

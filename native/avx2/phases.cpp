// Phases of a dither with AVX2: 32 codes at a time.
#if defined(__AVX2__)

#include "phases.h"

#include "avx2/lanes.h"
#include "portable/portable.h"

namespace fewbits {
namespace {

Vector phases_of(Vector words) {
    const Vector turned = _mm256_srai_epi32(words, 31);
    return _mm256_xor_si256(_mm256_srli_epi32(words, 29), _mm256_andnot_si256(turned, all(3)));
}

void find(const Stream &dither, Bytes phases) {
    size_t whole = phases.size() / kGroup * kGroup;
    if (whole == 0 || crosses_segment(dither.first, whole)) {
        whole = 0;
    } else {
        Words words(dither, dither.first);
        for (size_t i = 0; i < whole; i += kGroup) {
            Vector each[4];
            for (Vector &own : each) {
                own = phases_of(words.next());
            }
            store(phases.data() + i, narrowed(each[0], each[1], each[2], each[3]));
        }
    }
    portable_phases.find(dither.from(whole), phases.subspan(whole));
}

void fold(ConstBytes codes, const uint8_t *signs, ConstBytes phases, Bytes symbols) {
    const size_t whole = codes.size() / kGroup * kGroup;
    const Vector turned = _mm256_set1_epi8(static_cast<char>(kPhaseTurned));
    const Vector escape = _mm256_set1_epi8(static_cast<char>(kPhaseEscape));
    const Vector above = _mm256_set1_epi8(static_cast<char>(kPhaseLargest + 1));
    for (size_t i = 0; i < whole; i += kGroup) {
        const Vector phase = load(phases.data() + i);
        const Vector code = _mm256_min_epu8(load(codes.data() + i), above);
        const Vector zero = _mm256_cmpeq_epi8(code, _mm256_setzero_si256());
        const Vector other = _mm256_cmpeq_epi8(_mm256_and_si256(phase, turned), turned);
        const Vector below =
            _mm256_andnot_si256(zero, _mm256_xor_si256(bytes_of_plane(signs + i / 8), other));
        const Vector symbol =
            _mm256_min_epu8(_mm256_add_epi8(_mm256_add_epi8(code, code), below), escape);
        const Vector table = _mm256_and_si256(_mm256_slli_epi16(phase, kPhaseSymbolBits),
                                              _mm256_set1_epi8(static_cast<char>(0xC0)));
        store(symbols.data() + i, _mm256_or_si256(symbol, table));
    }
    portable_phases.fold(codes.subspan(whole), signs + whole / 8, phases.subspan(whole),
                         symbols.subspan(whole));
}

void unfold(ConstBytes symbols, ConstBytes phases, uint8_t *codes, uint8_t *signs) {
    const size_t whole = symbols.size() / kGroup * kGroup;
    for (size_t i = 0; i < whole; i += kGroup) {
        const Vector symbol = load(symbols.data() + i);
        const Vector zero = _mm256_cmpeq_epi8(symbol, _mm256_setzero_si256());
        const Vector odd = _mm256_slli_epi16(symbol, 7); // in the top bit of each byte
        const Vector turned = _mm256_slli_epi16(load(phases.data() + i), 5);
        const Vector negative = _mm256_andnot_si256(zero, _mm256_xor_si256(odd, turned));
        const auto plane = static_cast<uint32_t>(_mm256_movemask_epi8(negative));
        std::memcpy(signs + i / 8, &plane, 4);
        store(codes + i, _mm256_avg_epu8(symbol, _mm256_setzero_si256()));
    }
    portable_phases.unfold(symbols.subspan(whole), phases.subspan(whole), codes + whole,
                           signs + whole / 8);
}

template <size_t vectors>
const uint8_t *decode_lanes(ConstBytes data, const RansDecodeTable *tables,
                            std::span<uint32_t> states, ConstBytes phases, Bytes symbols) {
    const uint8_t *from = data.data();
    const uint8_t *const end = from + data.size();
    const auto turn = [&](size_t i, Vector(&x)[vectors]) {
        Vector slots[vectors];
#pragma GCC unroll 4
        for (size_t j = 0; j < vectors; ++j) {
            const Vector table = _mm256_and_si256(eight_bytes(phases.data() + i + 8 * j), all(3));
            slots[j] = slots_among(x[j], _mm256_slli_epi32(table, kRansBits), tables->slots);
            x[j] = left_slots(x[j], slots[j], from);
        }
        store_symbols<vectors>(slots, symbols.data() + i);
    };
    const size_t i = decode_turns<vectors>(from, end, states, symbols.size(), turn);
    if (from == nullptr) {
        return nullptr;
    }
    return rans_decode_phases(from, end, tables, states, phases, symbols, i);
}

const uint8_t *decode(ConstBytes data, const RansDecodeTable *tables, std::span<uint32_t> states,
                      ConstBytes phases, Bytes symbols) {
    switch (states.size()) {
    case 8:
        return decode_lanes<1>(data, tables, states, phases, symbols);
    case 16:
        return decode_lanes<2>(data, tables, states, phases, symbols);
    case 32:
        return decode_lanes<4>(data, tables, states, phases, symbols);
    default:
        return portable_phases.decode(data, tables, states, phases, symbols);
    }
}

} // namespace

constinit const PhaseKernels avx2_phases = {
    .find = find,
    .fold = fold,
    .unfold = unfold,
    .decode = decode,
};

} // namespace fewbits

#endif

// Groups of kernels for blocks with several tables; only kernels.h includes this.
#pragma once

namespace fewbits {

// Codes that were rounded with a dither; phases.h has the meaning.
struct PhaseKernels {
    void (*find)(const Stream &dither, Bytes phases);
    void (*fold)(ConstBytes codes, const uint8_t *signs, ConstBytes phases, Bytes symbols);
    void (*unfold)(ConstBytes symbols, ConstBytes phases, uint8_t *codes, uint8_t *signs);
    const uint8_t *(*decode)(ConstBytes data, const RansDecodeTable *tables,
                             std::span<uint32_t> states, ConstBytes phases, Bytes symbols);
};

// Levels on paths of a trellis; trellis.h and trellis_levels.h have the meaning. `words` are those
// of a dither, or null. Values are float32; those of other formats have no kernels.
struct TrellisKernels {
    void (*fix)(In<uint32_t> values, float step, const uint32_t *words, int32_t *fixed,
                uint8_t *places);
    void (*search)(ConstBytes places, size_t lanes, int states, Bytes labels);
    LevelStats (*settle)(ConstBytes labels, int32_t *levels);
    StepSums (*sums)(In<uint32_t> values, const int32_t *levels);
    void (*fold)(std::span<const int32_t> levels, const uint32_t *words, int shift, uint32_t escape,
                 uint8_t *symbols);
    const uint8_t *(*decode)(ConstBytes data, const PathTables &tables, std::span<uint32_t> states,
                             int trellis, const uint32_t *words, std::span<int32_t> levels,
                             uint8_t *symbols);
    void (*values)(std::span<const int32_t> levels, const uint32_t *words, float scale,
                   Out<uint32_t> values);
    // The others are null where they would gain nothing. A block of kFullPaths values or more to
    // levels; false where one is too far away.
    bool (*find)(In<uint32_t> values, float step, const Stream *dither, int states,
                 NearLevels &found) = nullptr;
    StepSums (*near_sums)(In<uint32_t> values, const int16_t *levels) = nullptr;
    // `tops` are null where there is no dither.
    void (*near_fold)(std::span<const int16_t> levels, const uint8_t *tops, int shift,
                      uint32_t escape, uint8_t *symbols) = nullptr;
    // The same as `decode` and `values` of 32 lanes; all j are small, none is escaped. Says the
    // largest magnitude of a level.
    const uint8_t *(*decode_values)(ConstBytes data, const PathTables &tables,
                                    std::span<uint32_t> states, int trellis, const PathValues &to,
                                    uint32_t &largest) = nullptr;
    size_t (*nonfinite)(In<uint32_t> values) = nullptr;
};

// Some rows and columns of a matrix, which is values + memory, or the values alone; rows are
// `stride` numbers apart.
template <class T> struct ProductMatrix {
    const T *values;
    const T *memory; // may be null
    size_t rows, columns, stride;
};

constexpr size_t kLane = 8; // numbers of a factor's row that are made together

// The left factor, with rows of `lanes` numbers, and two right ones, transposed.
template <class T> struct ProductFactors {
    const T *left, *own, *mean;
    size_t rank, lanes;
};

// Products of a matrix with thin factors; products.h has the meaning.
template <class T> struct ProductKernels {
    void (*left)(const ProductMatrix<T> &matrix, const T *basis, size_t lanes, T *out);
    void (*right)(const ProductMatrix<T> &matrix, const T *left, size_t lanes, T *out);
    void (*settle)(const ProductMatrix<T> &matrix, const ProductFactors<T> &factors, T *values,
                   T *remains);
};

} // namespace fewbits

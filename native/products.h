// Products of a matrix with thin factors, the same operations in the same order for every
// instruction set. src/fewbits/reference/low_rank.py is the specification.
//
// A factor has rows of `lanes` numbers, a multiple of kLane. Each number of a product is a sum in
// the order of the matrix's columns, or rows, from 0 on: numbers beside each other are independent,
// so they may be made together.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels.h"

namespace fewbits {
namespace { // internal linkage: see random.h

template <class T>
constexpr size_t kProductRows = 32 / sizeof(T); // of the matrix, which are used together
constexpr size_t kSettledRows = 4;              // the same, where products are made
constexpr size_t kProductTile = 2048; // columns: rows so long are read ahead, factors stay cached
constexpr size_t kProductPanel = 256; // columns of the matrix that are formed at once

// kLane numbers, at any address of a number.
template <class T> struct Lanes {
    using Vector [[gnu::vector_size(kLane * sizeof(T))]] = T;
    Vector v;

    void load(const T *from) { std::memcpy(&v, from, sizeof v); }
    void store(T *to) const { std::memcpy(to, &v, sizeof v); }
};

// Some rows and columns of the matrix: values, and what is remembered of them.
template <class T>
void form(const ProductMatrix<T> &matrix, size_t row, size_t column, size_t count, T *out) {
    const size_t at = row * matrix.stride + column;
    const T *const values = matrix.values + at;
    if (matrix.memory == nullptr) {
        std::memcpy(out, values, count * sizeof(T));
        return;
    }
    const T *const memory = matrix.memory + at;
    for (size_t i = 0; i < count; ++i) {
        out[i] = values[i] + memory[i];
    }
}

// A tile of up to kProductRows<T> rows; those that are missing are zeros.
template <class T>
void form_rows(const ProductMatrix<T> &matrix, size_t row, size_t rows, size_t column, size_t count,
               T (&tile)[kProductRows<T>][kProductPanel]) {
    for (size_t i = 0; i < kProductRows<T>; ++i) {
        if (i < rows) {
            form(matrix, row + i, column, count, tile[i]);
        } else {
            std::fill_n(tile[i], count, T{0});
        }
    }
}

// out = M basis: `rows` rows of `lanes` numbers.
template <class T>
void left_factor(const ProductMatrix<T> &matrix, const T *basis, size_t lanes, T *out) {
    std::fill_n(out, matrix.rows * lanes, T{0});
    T tile[kProductRows<T>][kProductPanel];
    for (size_t row = 0; row < matrix.rows; row += kProductRows<T>) {
        const size_t rows = std::min(kProductRows<T>, matrix.rows - row);
        for (size_t start = 0; start < matrix.columns; start += kProductPanel) {
            const size_t count = std::min(kProductPanel, matrix.columns - start);
            form_rows(matrix, row, rows, start, count, tile);
            for (size_t lane = 0; lane < lanes; lane += kLane) {
                Lanes<T> sums[kProductRows<T>] = {};
                for (size_t i = 0; i < rows; ++i) {
                    sums[i].load(out + (row + i) * lanes + lane);
                }
                for (size_t k = 0; k < count; ++k) {
                    Lanes<T> own;
                    own.load(basis + (start + k) * lanes + lane);
                    for (size_t i = 0; i < kProductRows<T>; ++i) {
                        sums[i].v += tile[i][k] * own.v;
                    }
                }
                for (size_t i = 0; i < rows; ++i) {
                    sums[i].store(out + (row + i) * lanes + lane);
                }
            }
        }
    }
}

// Calls `use` with the row, the column and the columns of each panel of `rows` neighbouring rows,
// or of those that are left, and says how many these are.
template <class T, class Use>
void each_panel(const ProductMatrix<T> &matrix, size_t rows, const Use &use) {
    for (size_t tile = 0; tile < matrix.columns; tile += kProductTile) {
        const size_t stop = std::min(matrix.columns, tile + kProductTile);
        for (size_t row = 0; row < matrix.rows; row += rows) {
            const size_t count = std::min(rows, matrix.rows - row);
            for (size_t start = tile; start < stop; start += kProductPanel) {
                use(row, count, start, std::min(kProductPanel, stop - start));
            }
        }
    }
}

// out = transposed M left: `columns` rows of `lanes` numbers.
template <class T>
void right_factor(const ProductMatrix<T> &matrix, const T *left, size_t lanes, T *out) {
    std::fill_n(out, matrix.columns * lanes, T{0});
    T tile[kProductRows<T>][kProductPanel];
    const auto add = [&](size_t row, size_t rows, size_t start, size_t count) {
        form_rows(matrix, row, rows, start, count, tile);
        for (size_t lane = 0; lane < lanes; lane += kLane) {
            Lanes<T> own[kProductRows<T>] = {};
            for (size_t i = 0; i < rows; ++i) {
                own[i].load(left + (row + i) * lanes + lane);
            }
            for (size_t k = 0; k < count; ++k) {
                T *const place = out + (start + k) * lanes + lane;
                Lanes<T> sum;
                sum.load(place);
                for (size_t i = 0; i < kProductRows<T>; ++i) {
                    sum.v += tile[i][k] * own[i].v;
                }
                sum.store(place);
            }
        }
    };
    each_panel(matrix, kProductRows<T>, add);
}

// What is left of some neighbouring columns of kRows rows without left times own, and left times
// mean. `own` and `mean` have rows of `stride` numbers, one for each column of the factors.
template <size_t kRows, class T> struct SettledPlace {
    const T *left; // rows of `lanes` numbers
    size_t lanes;
    size_t rank;
    const T *own;
    const T *mean;
    size_t stride;
    const T *formed; // rows of kProductPanel numbers
    T *values;
    T *remains;
    size_t apart; // from one row of both to the next

    // `count` rows of left times some columns of a transposed factor, each sum in order.
    template <size_t kWide>
    void multiply(const T *right, size_t at, Lanes<T> (&sums)[kRows][kWide]) const {
        for (size_t j = 0; j < rank; ++j) {
            for (size_t part = 0; part < kWide; ++part) {
                Lanes<T> other;
                other.load(right + j * stride + at + part * kLane);
                for (size_t row = 0; row < kRows; ++row) {
                    sums[row][part].v += left[row * lanes + j] * other.v;
                }
            }
        }
    }

    template <size_t kWide> void columns(size_t at) const {
        Lanes<T> taken[kRows][kWide] = {};
        multiply(own, at, taken);
        for (size_t row = 0; row < kRows; ++row) {
            for (size_t part = 0; part < kWide; ++part) {
                const size_t place = at + part * kLane;
                Lanes<T> whole;
                whole.load(formed + row * kProductPanel + place);
                whole.v -= taken[row][part].v;
                whole.store(remains + row * apart + place);
            }
        }
        Lanes<T> sums[kRows][kWide] = {};
        multiply(mean, at, sums);
        for (size_t row = 0; row < kRows; ++row) {
            for (size_t part = 0; part < kWide; ++part) {
                sums[row][part].store(values + row * apart + at + part * kLane);
            }
        }
    }

    void column(size_t at) const {
        for (size_t row = 0; row < kRows; ++row) {
            T taken = 0;
            T sum = 0;
            for (size_t j = 0; j < rank; ++j) {
                taken += left[row * lanes + j] * own[j * stride + at];
                sum += left[row * lanes + j] * mean[j * stride + at];
            }
            remains[row * apart + at] = formed[row * kProductPanel + at] - taken;
            values[row * apart + at] = sum;
        }
    }

    void all(size_t count) const {
        constexpr size_t wide = 8 / sizeof(T); // vectors together, so that none waits for itself
        size_t at = 0;
        for (; at + wide * kLane <= count; at += wide * kLane) {
            columns<wide>(at);
        }
        for (; at + kLane <= count; at += kLane) {
            columns<1>(at);
        }
        for (; at < count; ++at) {
            column(at);
        }
    }
};

// What is left of the matrix without left times own; then left times mean takes its place.
template <class T>
void settle_products(const ProductMatrix<T> &matrix, const ProductFactors<T> &factors, T *values,
                     T *remains) {
    T formed[kSettledRows * kProductPanel];
    const auto settle = [&]<size_t kRows>(size_t row, size_t start, size_t count) {
        for (size_t i = 0; i < kRows; ++i) {
            form(matrix, row + i, start, count, formed + i * kProductPanel);
        }
        const size_t place = row * matrix.stride + start;
        const T *const left = factors.left + row * factors.lanes;
        const T *const own = factors.own + start;
        const T *const mean = factors.mean + start;
        SettledPlace<kRows, T>{
            left,   factors.lanes,  factors.rank,    own,          mean, matrix.columns,
            formed, values + place, remains + place, matrix.stride}
            .all(count);
    };
    each_panel(matrix, kSettledRows, [&](size_t row, size_t rows, size_t start, size_t count) {
        if (rows == kSettledRows) {
            settle.template operator()<kSettledRows>(row, start, count);
            return;
        }
        for (size_t i = 0; i < rows; ++i) {
            settle.template operator()<1>(row + i, start, count);
        }
    });
}

} // namespace
} // namespace fewbits

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

constexpr size_t kProductRows = 4;    // of the matrix, which are used together
constexpr size_t kProductTile = 512;  // columns of the matrix, which stay in the cache
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

// A tile of up to kProductRows rows; those that are missing are zeros.
template <class T>
void form_rows(const ProductMatrix<T> &matrix, size_t row, size_t rows, size_t column, size_t count,
               T (&tile)[kProductRows][kProductPanel]) {
    for (size_t i = 0; i < kProductRows; ++i) {
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
    T tile[kProductRows][kProductPanel];
    for (size_t row = 0; row < matrix.rows; row += kProductRows) {
        const size_t rows = std::min(kProductRows, matrix.rows - row);
        for (size_t start = 0; start < matrix.columns; start += kProductPanel) {
            const size_t count = std::min(kProductPanel, matrix.columns - start);
            form_rows(matrix, row, rows, start, count, tile);
            for (size_t lane = 0; lane < lanes; lane += kLane) {
                Lanes<T> sums[kProductRows] = {};
                for (size_t i = 0; i < rows; ++i) {
                    sums[i].load(out + (row + i) * lanes + lane);
                }
                for (size_t k = 0; k < count; ++k) {
                    Lanes<T> own;
                    own.load(basis + (start + k) * lanes + lane);
                    for (size_t i = 0; i < kProductRows; ++i) {
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

// out = transposed M left: `columns` rows of `lanes` numbers.
template <class T>
void right_factor(const ProductMatrix<T> &matrix, const T *left, size_t lanes, T *out) {
    std::fill_n(out, matrix.columns * lanes, T{0});
    T tile[kProductRows][kProductPanel];
    for (size_t start = 0; start < matrix.columns; start += kProductPanel) {
        const size_t count = std::min(kProductPanel, matrix.columns - start);
        for (size_t row = 0; row < matrix.rows; row += kProductRows) {
            const size_t rows = std::min(kProductRows, matrix.rows - row);
            form_rows(matrix, row, rows, start, count, tile);
            for (size_t lane = 0; lane < lanes; lane += kLane) {
                Lanes<T> own[kProductRows] = {};
                for (size_t i = 0; i < rows; ++i) {
                    own[i].load(left + (row + i) * lanes + lane);
                }
                for (size_t k = 0; k < count; ++k) {
                    T *const place = out + (start + k) * lanes + lane;
                    Lanes<T> sum;
                    sum.load(place);
                    for (size_t i = 0; i < kProductRows; ++i) {
                        sum.v += tile[i][k] * own[i].v;
                    }
                    sum.store(place);
                }
            }
        }
    }
}

// Some columns of one row of left times `right`, which is transposed: rows of `stride` numbers.
template <class T>
void multiply_row(const T *left, size_t rank, const T *right, size_t stride, size_t count, T *out) {
    constexpr size_t wide = 4; // vectors together, so that none waits for itself
    size_t i = 0;
    for (; i + wide * kLane <= count; i += wide * kLane) {
        Lanes<T> sums[wide] = {};
        for (size_t j = 0; j < rank; ++j) {
            for (size_t part = 0; part < wide; ++part) {
                Lanes<T> own;
                own.load(right + j * stride + i + part * kLane);
                sums[part].v += left[j] * own.v;
            }
        }
        for (size_t part = 0; part < wide; ++part) {
            sums[part].store(out + i + part * kLane);
        }
    }
    for (; i < count; ++i) {
        T sum = 0;
        for (size_t j = 0; j < rank; ++j) {
            sum += left[j] * right[j * stride + i];
        }
        out[i] = sum;
    }
}

// What is left of the matrix without left times own; then left times mean takes its place.
template <class T>
void settle_products(const ProductMatrix<T> &matrix, const ProductFactors<T> &factors, T *values,
                     T *remains) {
    T formed[kProductPanel];
    T product[kProductPanel];
    for (size_t start = 0; start < matrix.columns; start += kProductTile) {
        const size_t stop = std::min(matrix.columns, start + kProductTile);
        for (size_t row = 0; row < matrix.rows; ++row) {
            const T *const left = factors.left + row * factors.lanes;
            for (size_t at = start; at < stop; at += kProductPanel) {
                const size_t count = std::min(kProductPanel, stop - at);
                const size_t place = row * matrix.stride + at;
                form(matrix, row, at, count, formed);
                multiply_row(left, factors.rank, factors.own + at, matrix.columns, count, product);
                for (size_t i = 0; i < count; ++i) {
                    remains[place + i] = formed[i] - product[i];
                }
                multiply_row(left, factors.rank, factors.mean + at, matrix.columns, count,
                             values + place);
            }
        }
    }
}

} // namespace
} // namespace fewbits

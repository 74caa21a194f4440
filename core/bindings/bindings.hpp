// What all files of the seam to Python share: a compiled model, arrays as they cross it, and how a long call looks up.
//
// No arithmetic here, and no validation beyond shapes and types: Python has done that where the user's words are
// known.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/gil.hpp"
#include "kernels/kernel.hpp"
#include "model/ensemble.hpp"
#include "run/parallel.hpp"

namespace linear_treeshap {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Values = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Progress = std::optional<nb::callable>;

// What Python knows as a Program. It outlives the engines that are made of it (nb::keep_alive).
struct Compiled {
    Program program;
    const Kernel& kernel;
};

template <class T>
std::span<const T> span(const Array<T>& a) {
    return {a.data(), a.size()};
}

// The trees of an ensemble, as Python holds them: names and meanings are those of ensemble.py.
struct Trees {
    Array<std::int64_t> tree_offsets;
    Array<std::int32_t> left;
    Array<std::int32_t> right;
    Array<std::int32_t> feature;
    Array<double> threshold;
    Array<bool> missing_left;
    Array<std::int32_t> category_set;
    Array<std::int64_t> category_offsets;
    Array<std::int32_t> category_codes;
    Array<double> cover;
    Matrix<double> value;
    Array<std::int32_t> tree_output;

    // As long as these arrays live. Who plays, and how rows are read, is for the caller to say.
    EnsembleView view() const;  // trees.cpp
};

inline void require(bool fits) {
    if (!fits) throw nb::value_error("an array has the wrong shape");
}

template <class Number>
RowsView rows_of(const Program& program, const Matrix<Number>& rows) {
    if (program.is_float32 != std::is_same_v<Number, float>) throw nb::type_error("rows are of the wrong number type");
    require(rows.shape(1) == static_cast<std::size_t>(program.n_columns));
    return {rows.data(), rows.shape(0), rows.shape(1), program.is_float32};
}

// A NumPy array of the same memory.
template <class T>
nb::object array_of(std::vector<T> numbers) {
    auto* kept = new std::vector<T>(std::move(numbers));
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// Lets Python look at its signals, and those who asked at the progress.
inline Control::Poll poll_for(const Progress& progress) {
    return [&progress](double share_done) {
        const WithGil gil;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (progress) call_python(*progress, nb::float_(share_done));
    };
}

// A Python function as a source of rules: of the number of players on a path, to (points, 1 - points, weights).
RuleFor rule_for(const nb::callable& rule);  // program.cpp

void bind_readers(nb::module_& m);
void bind_trees(nb::module_& m);
void bind_program(nb::module_& m);
void bind_values(nb::module_& m);
void bind_sets(nb::module_& m);
void bind_background(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_paper(nb::module_& m);

}  // namespace linear_treeshap

// What all files of the seam to Python share: arrays as they cross it, and how a long call looks up.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <type_traits>

#include "kernels/kernel.hpp"
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

inline void require(bool fits) {
    if (!fits) throw nb::value_error("an array has the wrong shape");
}

template <class Number>
RowsView rows_of(const Program& program, const Matrix<Number>& rows) {
    if (program.is_float32 != std::is_same_v<Number, float>) throw nb::type_error("rows are of the wrong number type");
    require(rows.shape(1) == static_cast<std::size_t>(program.n_columns));
    return {rows.data(), rows.shape(0)};
}

// Lets Python look at its signals, and those who asked at the progress.
inline Control::Poll poll_for(const Progress& progress) {
    return [&progress](double share_done) {
        const nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (progress) (*progress)(share_done);
    };
}

void bind_background(nb::module_& m);  // background_module.cpp

}  // namespace linear_treeshap

// The seam to Python: files are read, `compile` is called once, `explain` many times. No arithmetic here, and no
// validation beyond shapes and types: Python has done that where the user's words are known.

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/bindings.hpp"
#include "readers/records.hpp"
#include "sets/set_engine.hpp"
#include "values/value_engine.hpp"

using namespace nanobind::literals;

namespace linear_treeshap {
namespace {

template <class T>
using Matrices = nb::ndarray<T, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Sums = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> span(const Array<T>& a) {
    return {a.data(), a.size()};
}

const Kernel& kernel_named(const std::optional<std::string>& name) {
    for (const Kernel* kernel : kernels())
        if (kernel->is_supported() && (!name || kernel->name == *name)) return *kernel;
    throw nb::value_error(("this machine has no kernel named '" + *name + "'").c_str());
}

using Numbers = nb::ndarray<nb::numpy, double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A NumPy array with memory of its own.
Numbers array_of(const std::vector<double>& numbers) {
    auto copy = std::make_unique<double[]>(numbers.size());
    std::copy(numbers.begin(), numbers.end(), copy.get());
    double* const data = copy.release();
    const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
    return Numbers(data, {numbers.size()}, owner);
}

// A Python function as a source of rules: of the number of players on a path, to (points, 1 - points, weights).
RuleFor rule_for(const nb::callable& rule) {
    return [&rule](int n_players) {
        const nb::gil_scoped_acquire gil;
        const auto [point, absent, weight] =
            nb::cast<std::tuple<Array<double>, Array<double>, Array<double>>>(rule(n_players));
        if (point.size() == 0 || absent.size() != point.size() || weight.size() != point.size())
            throw nb::value_error("a rule needs points, and as many weights");
        const auto numbers = [](const Array<double>& a) { return std::vector<double>(a.data(), a.data() + a.size()); };
        Rule out{numbers(point), numbers(absent), numbers(weight), {}};
        for (std::size_t k = 0; k < point.size(); ++k) out.weight_per_absent.push_back(out.weight[k] / out.absent[k]);
        return out;
    };
}

template <class Number, class Value>
void explain(const Engine& engine, const Matrix<Number>& rows, const Values<Value>& out, int n_threads,
             const Progress& progress) {
    const Program& program = engine.program();
    const RowsView view = rows_of(program, rows);
    require(out.shape(0) == rows.shape(0) && out.shape(1) == static_cast<std::size_t>(program.n_players) &&
            out.shape(2) == static_cast<std::size_t>(program.n_outputs));
    const auto poll = poll_for(progress);
    const nb::gil_scoped_release no_gil;
    engine.explain<Value>(view, {out.data(), out.size()}, n_threads, poll);
}

template <class Number, class Value>
void explain_sets(const Interactions& interactions, const Matrix<Number>& rows, const Values<Value>& out, int n_threads,
                  const Progress& progress) {
    const Program& program = *interactions.program().program;
    const RowsView view = rows_of(program, rows);
    require(out.shape(0) == rows.shape(0) && out.shape(1) == interactions.program().sets.size() &&
            out.shape(2) == static_cast<std::size_t>(program.n_outputs));
    const auto poll = poll_for(progress);
    const nb::gil_scoped_release no_gil;
    interactions.explain<Value>(view, {out.data(), out.size()}, n_threads, poll);
}

template <class Number, class Value>
void explain_dense(const Interactions& interactions, const Matrix<Number>& rows, const Matrices<Value>& out,
                   int n_threads, const Progress& progress) {
    const Program& program = *interactions.program().program;
    const RowsView view = rows_of(program, rows);
    const auto n_players = static_cast<std::size_t>(program.n_players);
    require(interactions.program().max_order <= 2 && out.shape(0) == rows.shape(0) && out.shape(1) == n_players &&
            out.shape(2) == n_players && out.shape(3) == static_cast<std::size_t>(program.n_outputs));
    const auto poll = poll_for(progress);
    const nb::gil_scoped_release no_gil;
    interactions.explain_dense<Value>(view, {out.data(), out.size()}, n_threads, poll);
}

template <class Number>
void add_up(const Interactions& interactions, const Matrix<Number>& rows, const Sums& sum, const Sums& sum_abs,
            int n_threads, const Progress& progress) {
    const Program& program = *interactions.program().program;
    const RowsView view = rows_of(program, rows);
    for (const Sums* one : {&sum, &sum_abs})
        require(one->shape(0) == interactions.program().sets.size() &&
                one->shape(1) == static_cast<std::size_t>(program.n_outputs));
    const auto poll = poll_for(progress);
    const nb::gil_scoped_release no_gil;
    interactions.add_up(view, {sum.data(), sum.size()}, {sum_abs.data(), sum_abs.size()}, n_threads, poll);
}

std::string_view text(const Array<std::uint8_t>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
nb::object array_of(std::vector<T> numbers) {
    auto* kept = new std::vector<T>(std::move(numbers));
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// What is left of the file, and the columns as {field: (values, lengths)}.
template <class Read>
nb::tuple records_of(Read read) {
    Records records = [&] {
        const nb::gil_scoped_release no_gil;
        return read();
    }();
    nb::dict columns;
    for (Column& column : records.columns)
        columns[column.name.c_str()] =
            nb::make_tuple(array_of(std::move(column.values)), array_of(std::move(column.lengths)));
    return nb::make_tuple(nb::bytes(records.rest.data(), records.rest.size()), columns);
}

}  // namespace

NB_MODULE(_core, m) {
    m.def("kernels", [] {
        std::vector<std::string> names;
        for (const Kernel* kernel : kernels())
            if (kernel->is_supported()) names.emplace_back(kernel->name);
        return names;
    });

    m.def(
        "gauss_legendre",
        [](int n_points) {
            const Rule rule = gauss_legendre(n_points);
            return std::tuple(array_of(rule.point), array_of(rule.absent), array_of(rule.weight));
        },
        "n_points"_a);
    using Bytes = Array<std::uint8_t>;
    using Fields = std::vector<std::string>;
    m.def(
        "read_json",
        [](const Bytes& data, const std::string& list_name, const Fields& fields) {
            return records_of([&] { return read_json(text(data), list_name, fields); });
        },
        "data"_a, "list_name"_a, "fields"_a);
    m.def(
        "read_ubjson",
        [](const Bytes& data, const std::string& list_name, const Fields& fields) {
            return records_of([&] { return read_ubjson(text(data), list_name, fields); });
        },
        "data"_a, "list_name"_a, "fields"_a);
    m.def(
        "read_lightgbm",
        [](const Bytes& data, const Fields& fields) {
            return records_of([&] { return read_lightgbm(text(data), fields); });
        },
        "data"_a, "fields"_a);

    nb::class_<Engine>(m, "Engine")
        .def("explain", &explain<float, double>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a, "progress"_a.none())
        .def("explain", &explain<double, double>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a, "progress"_a.none())
        .def("explain", &explain<float, float>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a, "progress"_a.none())
        .def("explain", &explain<double, float>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a, "progress"_a.none())
        .def_prop_ro("kernel", [](const Engine& e) { return std::string(e.kernel().name); })
        .def(
            "interactions",
            [](const Engine& engine, const nb::callable& rule, int min_order, int max_order,
               const std::vector<double>& spread) {
                const nb::gil_scoped_release no_gil;
                return std::make_unique<Interactions>(
                    plan_sets(engine.program(), rule_for(rule), min_order, max_order, spread), engine.kernel());
            },
            nb::keep_alive<0, 1>(), nb::kw_only(), "rule"_a, "min_order"_a, "max_order"_a, "spread"_a);

    nb::class_<Interactions>(m, "Interactions")
        .def_prop_ro("sets", [](const Interactions& i) { return i.program().sets; })
        .def("explain", &explain_sets<float, double>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a,
             "progress"_a.none())
        .def("explain", &explain_sets<double, double>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a,
             "progress"_a.none())
        .def("explain", &explain_sets<float, float>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a,
             "progress"_a.none())
        .def("explain", &explain_sets<double, float>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a,
             "progress"_a.none())
        .def("explain_dense", &explain_dense<float, double>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a,
             "progress"_a.none())
        .def("explain_dense", &explain_dense<double, double>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a,
             "progress"_a.none())
        .def("explain_dense", &explain_dense<float, float>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a,
             "progress"_a.none())
        .def("explain_dense", &explain_dense<double, float>, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a,
             "progress"_a.none())
        .def("add_up", &add_up<float>, "rows"_a, "sum"_a, "sum_abs"_a, nb::kw_only(), "n_threads"_a,
             "progress"_a.none())
        .def("add_up", &add_up<double>, "rows"_a, "sum"_a, "sum_abs"_a, nb::kw_only(), "n_threads"_a,
             "progress"_a.none());

    m.def(
        "compile",
        [](const Array<std::int64_t>& tree_offsets, const Array<std::int32_t>& left, const Array<std::int32_t>& right,
           const Array<std::int32_t>& feature, const Array<double>& threshold, const Array<bool>& missing_left,
           const Array<std::int32_t>& category_set, const Array<std::int64_t>& category_offsets,
           const Array<std::int32_t>& category_codes, const Array<double>& cover, const Matrix<double>& value,
           const Array<std::int32_t>& tree_output, const Array<std::int32_t>& player, std::int32_t n_outputs,
           std::int32_t n_players, bool is_float32, const nb::callable& rule,
           const std::optional<std::string>& kernel) {
            const EnsembleView view{span(tree_offsets),
                                    span(left),
                                    span(right),
                                    span(feature),
                                    span(threshold),
                                    span(missing_left),
                                    span(category_set),
                                    span(category_offsets),
                                    span(category_codes),
                                    span(cover),
                                    {value.data(), value.size()},
                                    span(tree_output),
                                    span(player),
                                    static_cast<std::int32_t>(value.shape(1)),
                                    n_outputs,
                                    n_players,
                                    is_float32};
            const nb::gil_scoped_release no_gil;
            return std::make_unique<Engine>(view, rule_for(rule), kernel_named(kernel));
        },
        nb::kw_only(), "tree_offsets"_a, "left"_a, "right"_a, "feature"_a, "threshold"_a, "missing_left"_a,
        "category_set"_a, "category_offsets"_a, "category_codes"_a, "cover"_a, "value"_a, "tree_output"_a, "player"_a,
        "n_outputs"_a, "n_players"_a, "is_float32"_a, "rule"_a, "kernel"_a.none());

    bind_background(m);
}

}  // namespace linear_treeshap

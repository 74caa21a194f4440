// An ensemble and an index → a Program, which every engine walks.

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "background/prediction.hpp"
#include "bindings/bindings.hpp"
#include "compile/quadrature.hpp"

using namespace nanobind::literals;

namespace linear_treeshap {
namespace {

using Predictions = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

const Kernel& kernel_named(const std::optional<std::string>& name) {
    for (const Kernel* kernel : kernels())
        if (!name || kernel->name == *name) return *kernel;
    throw nb::value_error(("this machine has no kernel named '" + *name + "'").c_str());
}

template <class Number>
void predict_rows(const Compiled& compiled, const Matrix<Number>& rows, const Predictions& out, int n_threads) {
    const RowsView view = rows_of(compiled.program, rows);
    require(out.shape(0) == rows.shape(0) && out.shape(1) == static_cast<std::size_t>(compiled.program.n_outputs));
    const Progress nobody;
    const auto poll = poll_for(nobody);
    const WithoutGil no_gil;
    predict(compiled.program, background_kernel_of(compiled.kernel), view, {out.data(), out.size()}, n_threads, poll);
}

template <class Number, class Value>
bool values_add_up(const Compiled& compiled, const Matrix<Number>& rows, const Values<const Value>& values,
                   const Array<double>& base, double tolerance, int n_threads) {
    const RowsView view = rows_of(compiled.program, rows);
    const auto n_outputs = static_cast<std::size_t>(compiled.program.n_outputs);
    require(values.shape(0) == rows.shape(0) && values.shape(2) == n_outputs && base.size() == n_outputs);
    const Progress nobody;
    const auto poll = poll_for(nobody);
    const WithoutGil no_gil;
    return adds_up(compiled.program, background_kernel_of(compiled.kernel), view,
                   std::span<const Value>(values.data(), values.size()), span(base), tolerance, n_threads, poll);
}

}  // namespace

RuleFor rule_for(const nb::callable& rule) {
    return [&rule](int n_players) {
        const WithGil gil;
        const auto [point, absent, weight] =
            nb::cast<std::tuple<Array<double>, Array<double>, Array<double>>>(call_python(rule, nb::int_(n_players)));
        if (point.size() == 0 || absent.size() != point.size() || weight.size() != point.size())
            throw nb::value_error("a rule needs points, and as many weights");
        const auto numbers = [](const Array<double>& a) { return std::vector<double>(a.data(), a.data() + a.size()); };
        return Rule(numbers(point), numbers(absent), numbers(weight));
    };
}

void bind_program(nb::module_& m) {
    m.def("kernels", [] {
        std::vector<std::string> names;
        for (const Kernel* kernel : kernels()) names.emplace_back(kernel->name);
        return names;
    });
    m.def(
        "gauss_legendre",
        [](int n_points) {
            const Rule rule = gauss_legendre(n_points);
            return nb::make_tuple(array_of(rule.point), array_of(rule.absent), array_of(rule.weight));
        },
        "n_points"_a);

    auto program = nb::class_<Compiled>(m, "Program");
    program.def_prop_ro("kernel", [](const Compiled& compiled) { return std::string(compiled.kernel.name); });
    const auto def_predict = [&](auto* one) {
        program.def("predict", one, "rows"_a, "out"_a, nb::kw_only(), "n_threads"_a);
    };
    def_predict(&predict_rows<float>);
    def_predict(&predict_rows<double>);
    const auto def_adds_up = [&](auto* one) {
        program.def("adds_up", one, "rows"_a, "values"_a, "base"_a, "tolerance"_a, nb::kw_only(), "n_threads"_a);
    };
    def_adds_up(&values_add_up<float, double>);
    def_adds_up(&values_add_up<double, double>);
    def_adds_up(&values_add_up<float, float>);
    def_adds_up(&values_add_up<double, float>);

    m.def(
        "compile",
        [](const Trees& trees, const Array<std::int32_t>& player, std::int32_t n_outputs, std::int32_t n_players,
           bool is_float32, const std::optional<nb::callable>& rule, const std::optional<std::string>& kernel) {
            EnsembleView view = trees.view();
            view.player = span(player);
            view.n_outputs = n_outputs;
            view.n_players = n_players;
            view.is_float32 = is_float32;
            const Kernel& chosen = kernel_named(kernel);
            const Progress nobody;
            const auto poll = poll_for(nobody);
            const WithoutGil no_gil;
            const RulesOfIndex index = rule ? RulesOfIndex{rule_for(*rule), {}} : kShapley;
            return std::make_unique<Compiled>(Compiled{compile(view, index, poll), chosen});
        },
        "trees"_a, nb::kw_only(), "player"_a, "n_outputs"_a, "n_players"_a, "is_float32"_a, "rule"_a.none(),
        "kernel"_a.none());
}

}  // namespace linear_treeshap

// Rows of categories → rows as the trees read them.

#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "rows/key_tables.hpp"

using namespace nanobind::literals;

namespace linear_treeshap {
namespace {

template <class T>
using MutableMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Part i of what lies side by side.
template <class T>
std::vector<T> part_of(const Array<T>& all, const Array<std::int64_t>& offsets, std::size_t i) {
    const std::int64_t begin = offsets.data()[i], end = offsets.data()[i + 1];
    require(0 <= begin && begin <= end && static_cast<std::size_t>(end) <= all.size());
    return {all.data() + begin, all.data() + end};
}

using AnyMatrix = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;

HashedRows rows_for(const KeyTables& tables, const AnyMatrix& rows) {
    require(rows.shape(1) >= tables.n_features());
    return {rows.data(), rows.shape(0), rows.shape(1), rows.stride(0), rows.stride(1)};
}

template <class Number>
void fill(const KeyTables& tables, const AnyMatrix& rows, const MutableMatrix<Number>& out) {
    require(out.shape(0) == rows.shape(0) && out.shape(1) >= rows.shape(1) + tables.n_numbers());
    const HashedRows view = rows_for(tables, rows);
    const WithoutGil no_gil;
    tables.fill<Number>(view, {out.data(), out.size()}, out.shape(1));
}

template <class Number>
void look_up(const KeyTables& tables, std::size_t table, const AnyMatrix& rows, const MutableMatrix<Number>& out) {
    require(table < tables.n_tables() && out.shape(0) == rows.shape(0) && out.shape(1) == tables.n_numbers(table));
    const HashedRows view = rows_for(tables, rows);
    const WithoutGil no_gil;
    tables.look_up<Number>(table, view, {out.data(), out.size()});
}

}  // namespace

void bind_rows(nb::module_& m) {
    auto tables = nb::class_<KeyTables>(m, "KeyTables");
    tables.def(
        "__init__",
        [](KeyTables* self, const Array<std::uint8_t>& kind, const Array<std::int32_t>& column,
           const Array<double>& operand, const Array<bool>& if_missing, const Array<std::int32_t>& table_parts,
           const Array<std::int64_t>& part_offsets, const Array<std::uint64_t>& keys,
           const Array<std::int64_t>& key_offsets, const Array<float>& numbers,
           const Array<std::int64_t>& number_offsets, const Array<std::int32_t>& hashed, const Array<double>& known,
           const Array<std::int64_t>& known_offsets) {
            require(column.size() == kind.size() && operand.size() == kind.size() && if_missing.size() == kind.size());
            std::vector<KeyPart> parts;
            for (std::size_t i = 0; i < kind.size(); ++i) {
                require(kind.data()[i] <= 2 && column.data()[i] >= 0);
                parts.push_back({static_cast<KeyPart::Kind>(kind.data()[i]), if_missing.data()[i], at(column.data()[i]),
                                 operand.data()[i]});
            }
            require(part_offsets.size() > 0 && key_offsets.size() == part_offsets.size() &&
                    number_offsets.size() == part_offsets.size() && known_offsets.size() == hashed.size() + 1);
            std::vector<KeyTable> all;
            for (std::size_t i = 0; i + 1 < part_offsets.size(); ++i) {
                KeyTable table{part_of(table_parts, part_offsets, i), part_of(keys, key_offsets, i),
                               part_of(numbers, number_offsets, i)};
                const std::size_t n_rows = table.keys.size() + 1;
                table.n_numbers = static_cast<std::int32_t>(table.numbers.size() / n_rows);
                require(at(table.n_numbers) * n_rows == table.numbers.size());
                for (const auto part : table.parts) require(part >= 0 && at(part) < parts.size());
                all.push_back(std::move(table));
            }
            std::vector<HashedColumn> columns;
            for (std::size_t i = 0; i < hashed.size(); ++i) {
                require(hashed.data()[i] >= 0);
                columns.push_back({at(hashed.data()[i]), part_of(known, known_offsets, i)});
            }
            new (self) KeyTables(std::move(parts), std::move(all), std::move(columns));
        },
        nb::kw_only(), "kind"_a, "column"_a, "operand"_a, "if_missing"_a, "table_parts"_a, "part_offsets"_a, "keys"_a,
        "key_offsets"_a, "numbers"_a, "number_offsets"_a, "hashed"_a, "known"_a, "known_offsets"_a);
    tables.def("fill", &fill<float>, "rows"_a, "out"_a);
    tables.def("fill", &fill<double>, "rows"_a, "out"_a);
    tables.def("look_up", &look_up<float>, "table"_a, "rows"_a, "out"_a);
    tables.def("look_up", &look_up<double>, "table"_a, "rows"_a, "out"_a);
}

}  // namespace linear_treeshap

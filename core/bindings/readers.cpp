// Files of other libraries → columns of numbers.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "readers/records.hpp"

using namespace nanobind::literals;

namespace linear_treeshap {
namespace {

using Bytes = Array<std::uint8_t>;
using Fields = std::vector<std::string>;

std::string_view text(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// What is left of the file, and the columns as {field: (values, lengths)}.
template <class Read>
nb::tuple records_of(Read read) {
    const Progress nobody;
    const auto poll = poll_for(nobody);
    Records records = [&] {
        const WithoutGil no_gil;
        return read(poll);
    }();
    nb::dict columns;
    for (Column& column : records.columns)
        columns[column.name.c_str()] =
            nb::make_tuple(array_of(std::move(column.values)), array_of(std::move(column.lengths)));
    return nb::make_tuple(nb::bytes(records.rest.data(), records.rest.size()), columns);
}

}  // namespace

void bind_readers(nb::module_& m) {
    m.def(
        "read_json",
        [](const Bytes& data, const std::string& list_name, const Fields& fields) {
            return records_of([&](const auto& poll) { return read_json(text(data), list_name, fields, poll); });
        },
        "data"_a, "list_name"_a, "fields"_a);
    m.def(
        "read_ubjson",
        [](const Bytes& data, const std::string& list_name, const Fields& fields) {
            return records_of([&](const auto& poll) { return read_ubjson(text(data), list_name, fields, poll); });
        },
        "data"_a, "list_name"_a, "fields"_a);
    m.def(
        "read_lightgbm",
        [](const Bytes& data, const Fields& fields) {
            return records_of([&](const auto& poll) { return read_lightgbm(text(data), fields, poll); });
        },
        "data"_a, "fields"_a);
}

}  // namespace linear_treeshap

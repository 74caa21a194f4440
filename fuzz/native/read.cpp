// A reader of files (READ_FILE, defined by whoever compiles this) on any bytes: it throws std::invalid_argument, or
// what comes out is consistent and no larger than the file.

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "readers/records.hpp"

namespace linear_treeshap {
namespace {

using Fields = std::vector<std::string>;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

// As importers ask for them.
Records read_json_file(std::string_view text, const Control::Poll& poll) {
    return read_json(text, "trees", {"left_children", "split_conditions", "categories", "id"}, poll);
}

// What is left of a file is JSON, from which nothing is taken any more.
Records with_rest_of_json(Records records, const Control::Poll& poll) {
    require(read_json_file(records.rest, poll).rest == records.rest, "the rest is not what JSON it would be");
    return records;
}

[[maybe_unused]] Records json(std::string_view text, const Control::Poll& poll) {
    return with_rest_of_json(read_json_file(text, poll), poll);
}

[[maybe_unused]] Records ubjson(std::string_view bytes, const Control::Poll& poll) {
    const Fields fields{"left_children", "split_conditions", "categories", "id"};
    return with_rest_of_json(read_ubjson(bytes, "trees", fields, poll), poll);
}

[[maybe_unused]] Records lightgbm(std::string_view text, const Control::Poll& poll) {
    return read_lightgbm(text, {"num_leaves", "split_feature", "threshold", "cat_threshold"}, poll);
}

}  // namespace
}  // namespace linear_treeshap

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace linear_treeshap;
    try {
        const Records records = READ_FILE({reinterpret_cast<const char*>(data), size}, [](double) {});
        std::size_t n_values = 0;
        for (const Column& column : records.columns) {
            const auto total = std::accumulate(column.lengths.begin(), column.lengths.end(), std::size_t{0});
            require(total == column.values.size(), "lengths do not add up to the numbers there are");
            require(column.lengths.size() == records.columns[0].lengths.size(), "columns of different records");
            n_values += column.values.size();
        }
        require(n_values <= size, "more numbers than bytes");
    } catch (const std::invalid_argument&) {
    }
    return 0;
}

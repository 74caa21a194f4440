// LightGBM's text → Records.

#include <algorithm>

#include "readers/number.hpp"
#include "readers/records.hpp"

namespace linear_treeshap {
namespace {

void append_numbers(std::string_view text, Column& column, Listener& listener) {
    const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    const char* const end = text.data() + text.size();
    for (const char* at = text.data();;) {
        while (at < end && is_space(*at)) ++at;
        if (at == end) return;
        const char* const start = at;
        while (at < end && !is_space(*at)) ++at;
        const std::optional<double> number = to_number({start, at});
        if (!number) throw std::invalid_argument("expected numbers in a tree's '" + column.name + "'");
        column.values.push_back(*number);
        listener.tick();
    }
}

}  // namespace

Records read_lightgbm(std::string_view text, const std::vector<std::string>& fields, const Control::Poll& poll) {
    Records records(fields);
    Listener listener(poll);
    const std::size_t end = text.find("\nend of trees");
    if (end == std::string_view::npos)
        throw std::invalid_argument("it is cut short: the line 'end of trees' is missing");
    const std::size_t begin = std::min(text.find("\nTree="), end);
    records.rest = text.substr(0, begin);
    records.rest += text.substr(end);

    bool any = false;
    for (std::size_t at = begin; at < end;) {
        const std::size_t next = std::min(text.find('\n', at + 1), end);
        const std::string_view line = text.substr(at + 1, next - at - 1);
        const std::size_t equals = line.find('=');
        const std::string_view field = line.substr(0, equals);
        if (field == "Tree") {
            if (any) records.end_record();
            any = true;
        } else if (Column* column = records.find(field); column != nullptr && equals != std::string_view::npos) {
            append_numbers(line.substr(equals + 1), *column, listener);
        }
        at = next;
        listener.tick();
    }
    if (any) records.end_record();
    return records;
}

}  // namespace linear_treeshap

// What a JSON or UBJSON reader reports, in the order of the file → Records: inside the list of records
// the numbers of the wanted fields, outside of it everything, as JSON.
#pragma once

#include <utility>

#include "readers/records.hpp"

namespace linear_treeshap {

class RecordSink {
  public:
    RecordSink(std::string_view list_name, const std::vector<std::string>& fields, const Control::Poll& poll)
        : list_name_(list_name), records_(fields), listener_(poll) {}

    // A '{' or a '['. Readers recurse, so this is also what keeps a hostile file off the end of the stack.
    void open(char bracket) {
        if (++depth_ > max_depth) throw std::invalid_argument("values are nested too deeply");
        listener_.tick();
        if (in_records()) {
            if (depth_ == records_depth_ + 1 && bracket != '{') refuse_record();
        } else if (bracket == '[' && name_ == list_name_) {
            records_depth_ = depth_;
            n_records_ = 0;
        } else {
            write({&bracket, 1});
        }
        name_ = {};
    }

    void close(char bracket) {
        if (!in_records()) {
            records_.rest += bracket;
        } else if (depth_ == records_depth_ + 1) {
            records_.end_record();
            ++n_records_;
        } else if (depth_ == records_depth_) {
            records_depth_ = 0;
            write(std::to_string(n_records_));
        }
        column_ = nullptr;
        --depth_;
    }

    // The name of the member to come; `as_json` gives it in quotes.
    template <class AsJson>
    void name(std::string_view name, AsJson as_json) {
        name_ = name;
        if (in_records()) {
            column_ = records_.find(name);
        } else {
            write(as_json());
            records_.rest += ':';
        }
    }

    // A number, a string or a word, given as JSON or as a number, whichever is wanted.
    template <class AsJson, class AsNumber>
    void scalar(AsJson as_json, AsNumber as_number) {
        listener_.tick();
        if (!in_records())
            write(as_json());
        else if (depth_ == records_depth_)
            refuse_record();
        else if (column_ != nullptr)
            column_->values.push_back(as_number());
        name_ = {};
    }

    // Does nobody want the numbers that follow?
    bool skips() const { return in_records() && depth_ > records_depth_ && column_ == nullptr; }

    Records take() { return std::move(records_); }

  private:
    static constexpr int max_depth = 100;  // XGBoost's models nest eight deep

    bool in_records() const { return records_depth_ > 0; }

    [[noreturn]] void refuse_record() const {
        throw std::invalid_argument("the list '" + list_name_ + "' must hold objects");
    }

    void write(std::string_view json) {
        std::string& rest = records_.rest;
        if (!rest.empty() && std::string_view("{[:").find(rest.back()) == std::string_view::npos) rest += ',';
        rest += json;
    }

    std::string list_name_;
    Records records_;
    Listener listener_;
    std::string_view name_;     // of the value to come
    Column* column_ = nullptr;  // where its numbers go
    int depth_ = 0;
    int records_depth_ = 0;  // the depth inside the list of records; 0 outside of it
    std::int64_t n_records_ = 0;
};

// All records of a file, by the reader of its grammar.
template <class Reader>
Records read_records(std::string_view file, std::string_view list_name, const std::vector<std::string>& fields,
                     const Control::Poll& poll) {
    RecordSink sink(list_name, fields, poll);
    Reader(file, sink).read();
    return sink.take();
}

}  // namespace linear_treeshap

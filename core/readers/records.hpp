// A model file → columns of numbers. A file holds a list of records, its trees; a field of a record is
// a number or a list of numbers. The numbers of one field, of all records end to end, are a column.
// What the file says besides is little, and is handed on as text. Files are long, so `poll` is called now and then.
//
// Numbers become doubles, which is exact for every integer and float32 in these files. Damage throws
// std::invalid_argument. Nothing is allocated that the bytes of the file do not fill themselves.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "run/control.hpp"

namespace linear_treeshap {

struct Column {
    std::string name;
    std::vector<double> values;
    std::vector<std::int32_t> lengths;  // (n_records,) how many of them belong to each record
    std::size_t n_closed = 0;           // numbers of the records that are complete
};

struct Records {
    std::vector<Column> columns;
    std::string rest;  // what the file says outside its records

    explicit Records(const std::vector<std::string>& fields) {
        for (const std::string& field : fields) columns.push_back({field, {}, {}});
    }

    // Null for a field that nobody asked for.
    Column* find(std::string_view field) {
        for (Column& column : columns)
            if (column.name == field) return &column;
        return nullptr;
    }

    void end_record() {
        for (Column& column : columns) {
            const std::size_t length = column.values.size() - column.n_closed;
            if (length > std::numeric_limits<std::int32_t>::max()) throw std::invalid_argument("a tree is too large");
            column.lengths.push_back(static_cast<std::int32_t>(length));
            column.n_closed = column.values.size();
        }
    }
};

// JSON or UBJSON whose records are the objects in the list called `list_name`, wherever that is. Fields
// of objects inside a record are fields of the record. The rest is JSON, with the number of records in
// place of the list.
Records read_json(std::string_view text, std::string_view list_name, const std::vector<std::string>& fields,
                  const Control::Poll& poll);
Records read_ubjson(std::string_view bytes, std::string_view list_name, const std::vector<std::string>& fields,
                    const Control::Poll& poll);

// LightGBM's text: lines "field=1 2 3", and a line "Tree=…" before each record. The rest is what stands
// before the first record and behind the last.
Records read_lightgbm(std::string_view text, const std::vector<std::string>& fields, const Control::Poll& poll);

}  // namespace linear_treeshap

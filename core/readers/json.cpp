// JSON text → Records. The grammar is checked here; what words and strings outside the records mean is
// left to whoever reads the rest.

#include "readers/number.hpp"
#include "readers/record_sink.hpp"

namespace linear_treeshap {
namespace {

class JsonReader {
  public:
    JsonReader(std::string_view text, RecordSink& sink) : text_(text), sink_(sink) {}

    void read() {
        value();
        if (peek() != end_of_text) damaged("the value is complete, but more data follows");
    }

  private:
    static constexpr int end_of_text = -1;

    [[noreturn]] void damaged(const std::string& what) const {
        throw std::invalid_argument(what + " (at byte " + std::to_string(at_) + " of " + std::to_string(text_.size()) +
                                    ")");
    }

    // The next byte that is not space.
    int peek() {
        const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
        while (at_ < text_.size() && is_space(text_[at_])) ++at_;
        return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : end_of_text;
    }

    void expect(char wanted) {
        if (peek() != wanted) damaged(std::string("expected '") + wanted + "'");
        ++at_;
    }

    void value() {
        const int first = peek();
        if (first == '{') {
            items('}', [&] { member(); });
        } else if (first == '[') {
            items(']', [&] { value(); });
        } else if (first == '"') {
            const std::string_view quoted = string();
            sink_.scalar([&] { return quoted; }, [&] { return number(unquoted(quoted)); });
        } else {
            const std::string_view found = word();
            sink_.scalar([&] { return found; }, [&] { return number(found); });
        }
    }

    // From an opening bracket to the closing one.
    template <class Item>
    void items(char closing, Item item) {
        sink_.open(text_[at_++]);
        if (peek() != closing) {
            item();
            for (; peek() == ','; item()) ++at_;
        }
        expect(closing);
        sink_.close(closing);
    }

    void member() {
        if (peek() != '"') damaged("expected a name");
        const std::string_view quoted = string();
        sink_.name(unquoted(quoted), [&] { return quoted; });
        expect(':');
        value();
    }

    // A string with its quotes.
    std::string_view string() {
        const std::size_t start = at_++;
        while (at_ < text_.size()) {
            const char c = text_[at_++];
            if (c == '"') return text_.substr(start, at_ - start);
            if (c == '\\') ++at_;  // whatever it is, it does not end the string
        }
        damaged("a string has no end");
    }

    static std::string_view unquoted(std::string_view quoted) { return quoted.substr(1, quoted.size() - 2); }

    // A number, or true, false or null.
    std::string_view word() {
        const auto belongs = [](char c) {
            return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
                   c == '+';
        };
        const std::size_t start = at_;
        while (at_ < text_.size() && belongs(text_[at_])) ++at_;
        if (at_ == start) damaged("expected a value");
        return text_.substr(start, at_ - start);
    }

    double number(std::string_view word) const {
        if (word == "true") return 1.0;
        if (word == "false") return 0.0;
        const std::optional<double> number = to_number(word);
        if (!number) damaged("expected a number");
        return *number;
    }

    std::string_view text_;
    RecordSink& sink_;
    std::size_t at_ = 0;
};

}  // namespace

Records read_json(std::string_view text, std::string_view list_name, const std::vector<std::string>& fields,
                  const Control::Poll& poll) {
    return read_records<JsonReader>(text, list_name, fields, poll);
}

}  // namespace linear_treeshap

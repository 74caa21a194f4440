// UBJSON, XGBoost's binary format, → Records. A marker before each value says what it is; numbers are
// big-endian, and an array may say the type and the count of its items first, as in "[$d#".

#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "readers/number.hpp"
#include "readers/record_sink.hpp"

namespace linear_treeshap {
namespace {

template <class Number>
std::string to_json(Number number) {
    if constexpr (std::is_integral_v<Number>) {
        return std::to_string(number);
    } else {
        if (std::isnan(number)) return "NaN";
        if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
        char text[32];
        // With an exponent, so that a whole number is still seen to be a float.
        return {
            text,
            std::to_chars(text, text + sizeof text, static_cast<double>(number), std::chars_format::scientific).ptr};
    }
}

std::string to_json(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            quoted += '\\';
            quoted += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            quoted += {'\\', 'u', '0', '0', "01"[c / 16], "0123456789abcdef"[c % 16]};
        } else {
            quoted += c;
        }
    }
    return quoted + '"';
}

class UbjsonReader {
  public:
    UbjsonReader(std::string_view bytes, RecordSink& sink) : bytes_(bytes), sink_(sink) {}

    void read() {
        value();
        if (at_ != bytes_.size()) damaged("the value is complete, but more data follows");
    }

  private:
    [[noreturn]] void damaged(const std::string& what) const {
        throw std::invalid_argument(what + " (at byte " + std::to_string(at_) + " of " + std::to_string(bytes_.size()) +
                                    ")");
    }

    char peek() const {
        if (at_ >= bytes_.size()) damaged("the data ends too early");
        return bytes_[at_];
    }

    char next() {
        const char byte = peek();
        ++at_;
        return byte;
    }

    std::string_view take(std::size_t size) {
        if (size > bytes_.size() - at_) damaged("the data ends too early");
        at_ += size;
        return bytes_.substr(at_ - size, size);
    }

    template <class Number>
    Number take_number() {
        const std::string_view big_endian = take(sizeof(Number));
        std::conditional_t<sizeof(Number) == 8, std::uint64_t, std::uint32_t> bits = 0;
        for (const char byte : big_endian) bits = (bits << 8) | static_cast<unsigned char>(byte);
        if constexpr (std::is_integral_v<Number>) return static_cast<Number>(bits);
        Number number;
        std::memcpy(&number, &bits, sizeof number);
        return number;
    }

    // Calls `use` with a number of the type that `marker` stands for; says whether there is one.
    template <class Use>
    static bool with_type(char marker, Use use) {
        switch (marker) {
            case 'i':
                return use(std::int8_t{}), true;
            case 'U':
                return use(std::uint8_t{}), true;
            case 'I':
                return use(std::int16_t{}), true;
            case 'l':
                return use(std::int32_t{}), true;
            case 'L':
                return use(std::int64_t{}), true;
            case 'd':
                return use(float{}), true;
            case 'D':
                return use(double{}), true;
            default:
                return false;
        }
    }

    // A count of items that must still fit into the data.
    std::size_t count(std::size_t item_size) {
        std::int64_t count = -1;
        with_type(next(), [&](auto type) {
            if constexpr (std::is_integral_v<decltype(type)>) count = take_number<decltype(type)>();
        });
        if (count < 0 || static_cast<std::size_t>(count) > (bytes_.size() - at_) / item_size)
            damaged("a count of " + std::to_string(count) + " does not fit into the data");
        return static_cast<std::size_t>(count);
    }

    void value() {
        const char marker = next();
        if (marker == '{') return object();
        if (marker == '[') return array();
        if (marker == 'S') {
            const std::string_view text = take(count(1));
            return sink_.scalar([&] { return to_json(text); }, [&] { return number_in(text); });
        }
        if (marker == 'T') return sink_.scalar([] { return "true"; }, [] { return 1.0; });
        if (marker == 'F') return sink_.scalar([] { return "false"; }, [] { return 0.0; });
        if (marker == 'Z') return sink_.scalar([] { return "null"; }, [] { return std::nan(""); });
        if (!with_type(marker, [&](auto type) { number<decltype(type)>(); })) damaged("an unknown marker");
    }

    template <class Number>
    void number() {
        const Number number = take_number<Number>();
        sink_.scalar([&] { return to_json(number); }, [&] { return static_cast<double>(number); });
    }

    double number_in(std::string_view text) const {
        const std::optional<double> number = to_number(text);
        if (!number) damaged("expected a number");
        return *number;
    }

    void object() {
        sink_.open('{');
        while (peek() != '}') {
            const std::string_view name = take(count(1));
            sink_.name(name, [&] { return to_json(name); });
            value();
        }
        ++at_;
        sink_.close('}');
    }

    void array() {
        sink_.open('[');
        if (peek() == '$') {
            ++at_;
            numbers(next());
        } else if (peek() == '#') {
            ++at_;
            for (std::size_t n = count(1); n > 0; --n) value();
        } else {
            while (peek() != ']') value();
            ++at_;
        }
        sink_.close(']');
    }

    // Numbers of one type; their count comes first.
    void numbers(char marker) {
        const bool is_number = with_type(marker, [&](auto type) {
            if (next() != '#') damaged("expected the count of an array");
            const std::size_t n = count(sizeof type);
            if (sink_.skips())
                at_ += n * sizeof type;
            else
                for (std::size_t i = 0; i < n; ++i) number<decltype(type)>();
        });
        if (!is_number) damaged("expected an array of numbers");
    }

    std::string_view bytes_;
    RecordSink& sink_;
    std::size_t at_ = 0;
};

}  // namespace

Records read_ubjson(std::string_view bytes, std::string_view list_name, const std::vector<std::string>& fields,
                    const Control::Poll& poll) {
    return read_records<UbjsonReader>(bytes, list_name, fields, poll);
}

}  // namespace linear_treeshap

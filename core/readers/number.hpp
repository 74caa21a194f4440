// Text → double, to the nearest; the decimal point is a point in every locale.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <version>

#if !defined(__cpp_lib_to_chars)  // libc++ reads whole numbers only, or, in newer versions, does not say so
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <string>
#if defined(__APPLE__)
#include <xlocale.h>
#endif
#endif

namespace linear_treeshap {

#if defined(__cpp_lib_to_chars)

// The number that `text` is, if it is one and a double can hold it.
inline std::optional<double> to_number(std::string_view text) {
    double number = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

#else

// The C library's way, which stops at a zero byte, and allows what std::from_chars does not: space and a plus before
// the number, and hexadecimal ones.
inline std::optional<double> to_number(std::string_view text) {
    const std::string copy(text);
    const char first = copy[copy[0] == '-' ? 1 : 0];  // of an empty string, the zero byte at its end
    const bool is_word = first == 'i' || first == 'I' || first == 'n' || first == 'N';  // infinity, nan
    const bool is_digit = (first >= '0' && first <= '9') || first == '.';
    if ((!is_word && !is_digit) || (is_digit && copy.find_first_of("xX") != std::string::npos)) return std::nullopt;
    char* end = nullptr;
#if defined(_WIN32)
    static const _locale_t plain = _create_locale(LC_ALL, "C");
    const double number = _strtod_l(copy.c_str(), &end, plain);
#else
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", locale_t{});
    const double number = strtod_l(copy.c_str(), &end, plain);
#endif
    if (end != copy.c_str() + copy.size()) return std::nullopt;
    // Beyond what a double can hold, which the C library turns into infinity or zero.
    const bool says_zero = copy.substr(0, copy.find_first_of("eE")).find_first_of("123456789") == std::string::npos;
    if (is_digit && (std::isinf(number) || (number == 0.0 && !says_zero))) return std::nullopt;
    return number;
}

#endif

}  // namespace linear_treeshap

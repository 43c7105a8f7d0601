// Expected failures as values: what input, peers and disks can do wrong.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace leat {

enum class ErrorKind {
    kCorrupt,      // bytes that break their format
    kUnsupported,  // a valid wish that we do not serve
    kNotFound,
    kRefused,  // permission, limit, or a conflicting state
    kIo,       // the system said no; the message holds its words
};

// One line for the user: no newline, no trailing period. Each layer may put its own clause in front.
struct Error {
    ErrorKind kind;
    std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

template <class... Args>
tl::unexpected<Error> fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
    return tl::unexpected(Error{kind, fmt::format(format, std::forward<Args>(args)...)});
}

template <class... Args>
tl::unexpected<Error> corrupt(fmt::format_string<Args...> format, Args&&... args) {
    return fail(ErrorKind::kCorrupt, format, std::forward<Args>(args)...);
}

template <class... Args>
tl::unexpected<Error> unsupported(fmt::format_string<Args...> format, Args&&... args) {
    return fail(ErrorKind::kUnsupported, format, std::forward<Args>(args)...);
}

template <class... Args>
tl::unexpected<Error> not_found(fmt::format_string<Args...> format, Args&&... args) {
    return fail(ErrorKind::kNotFound, format, std::forward<Args>(args)...);
}

template <class... Args>
tl::unexpected<Error> refused(fmt::format_string<Args...> format, Args&&... args) {
    return fail(ErrorKind::kRefused, format, std::forward<Args>(args)...);
}

// `errno` at the time of the call, in words, behind the caller's clause.
tl::unexpected<Error> io_error(std::string_view what);

// The same error with the clause of an outer layer in front: "cannot open x: no such file".
inline tl::unexpected<Error> wrap(std::string_view clause, Error error) {
    error.message = fmt::format("{}: {}", clause, error.message);
    return tl::unexpected(std::move(error));
}

// For LEAT_TRY: the value of a Result that has one.
template <class T>
T unwrap(Result<T>&& result) {
    return *std::move(result);
}
inline void unwrap(Result<void>&&) {}

}  // namespace leat

// The value of a Result, or leave the function with its error.
// NOLINTNEXTLINE(cppcoreguidelines-macro-usage)
#define LEAT_TRY(expression)                                                       \
    __extension__({                                                                \
        auto&& leat_result_ = (expression);                                        \
        if (!leat_result_) return tl::unexpected(std::move(leat_result_).error()); \
        ::leat::unwrap(std::move(leat_result_));                                   \
    })

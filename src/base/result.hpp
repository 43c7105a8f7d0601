// Expected failures as values: what input, peers and disks can do wrong.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace leat {

enum class ErrorKind {
    kCorrupt,      // bytes that break their format
    kUnsupported,  // a valid request that we do not serve
    kNotFound,
    kRefused,   // permission, limit, or a conflicting state
    kIo,        // a system call failed; the message has its error text
    kDiskFull,  // the disk has no room now, or the process for files, mappings or threads: try again
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

// The caller's clause, followed by the text of `errno`.
tl::unexpected<Error> io_error(std::string_view what);

// The same error with the clause of an outer layer in front: "cannot open x: no such file".
inline tl::unexpected<Error> wrap(std::string_view clause, Error error) {
    error.message = fmt::format("{}: {}", clause, error.message);
    return tl::unexpected(std::move(error));
}

// Whether a call failed because there was no room. Such a call has done nothing, or keeps what it was given: call it
// again.
template <class T>
bool is_disk_full(const Result<T>& result) {
    return !result && result.error().kind == ErrorKind::kDiskFull;
}

// The value of a Result that has one; for LEAT_TRY, which also serves Result<void>, and other types of errors.
template <class T, class E>
T take_value(tl::expected<T, E>&& result) {
    if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace leat

// Gives the value of a Result, or leaves the function with its error. The counter lets one TRY stand inside another.
//
// Leaving from the middle of an expression skips the destructors of the temporaries made so far: nothing to the left of
// a TRY may own memory. Wrong: `Pair{std::string(name), LEAT_TRY(parse())}`.
// NOLINTBEGIN(cppcoreguidelines-macro-usage)
#define LEAT_TRY(expression) LEAT_TRY_COUNTED(expression, __COUNTER__)
#define LEAT_TRY_COUNTED(expression, counter) LEAT_TRY_JOINED(expression, counter)
#define LEAT_TRY_JOINED(expression, counter) LEAT_TRY_NAMED(expression, leat_result_##counter)
#define LEAT_TRY_NAMED(expression, result)                             \
    __extension__({                                                    \
        auto&& result = (expression);                                  \
        if (!result) return tl::unexpected(std::move(result).error()); \
        ::leat::take_value(std::move(result));                         \
    })
// NOLINTEND(cppcoreguidelines-macro-usage)

// Traces on disk, for C++17: see <leat/ctf.h>, which says what each of these does.
//
//     try {
//         leat::ctf::reader trace("my-trace");
//         for (const leat::ctf::event event : trace)
//             std::cout << event.name() << ' ' << event["size"].integer() << '\n';
//     } catch (const leat::ctf::error& error) {
//         std::cerr << error.what() << '\n';
//     }
//
// Events, and all that is taken from them, are valid until their reader goes on.
#ifndef LEAT_CTF_HPP
#define LEAT_CTF_HPP

#include <leat/ctf.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace leat::ctf {

// What cannot be read, in a line.
class error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// A field, or a part of one; or nothing.
class value {
  public:
    value() = default;
    explicit value(const leat_ctf_value* found) : value_(found) {}

    [[nodiscard]] explicit operator bool() const { return value_ != nullptr; }
    [[nodiscard]] leat_ctf_kind kind() const { return leat_ctf_get_kind(value_); }
    [[nodiscard]] std::string_view name() const { return leat_ctf_name(value_); }
    [[nodiscard]] std::int64_t integer() const { return leat_ctf_integer(value_); }
    [[nodiscard]] std::uint64_t unsigned_integer() const { return static_cast<std::uint64_t>(integer()); }
    [[nodiscard]] double real() const { return leat_ctf_real(value_); }
    [[nodiscard]] std::string_view text() const {
        std::size_t size = 0;
        const char* const bytes = leat_ctf_text(value_, &size);
        return bytes == nullptr ? std::string_view() : std::string_view(bytes, size);
    }
    [[nodiscard]] bool is_enum() const { return leat_ctf_is_enum(value_) != 0; }
    [[nodiscard]] std::vector<const char*> labels() const {
        std::vector<const char*> found(leat_ctf_labels(value_, nullptr, 0));
        leat_ctf_labels(value_, found.data(), found.size());
        return found;
    }

    // A member of a struct; nothing, if it has none of that name.
    [[nodiscard]] value operator[](const char* name) const { return value(leat_ctf_member(value_, name)); }

    // Members and elements.
    class iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = value;
        using difference_type = std::ptrdiff_t;
        using pointer = const value*;
        using reference = value;

        iterator(const leat_ctf_value* part, std::size_t left) : part_(part), left_(left) {}
        value operator*() const { return value(part_); }
        iterator& operator++() {
            if (--left_ != 0) part_ = leat_ctf_next_part(part_);
            return *this;
        }
        bool operator==(const iterator& other) const { return left_ == other.left_; }
        bool operator!=(const iterator& other) const { return left_ != other.left_; }

      private:
        const leat_ctf_value* part_;
        std::size_t left_;
    };
    [[nodiscard]] std::size_t size() const { return leat_ctf_part_count(value_); }
    [[nodiscard]] iterator begin() const { return {leat_ctf_first_part(value_), size()}; }
    [[nodiscard]] iterator end() const { return {nullptr, 0}; }

  private:
    const leat_ctf_value* value_ = nullptr;
};

// The event where a reader is.
class event {
  public:
    explicit event(leat_ctf_reader* reader) : reader_(reader) {}

    [[nodiscard]] std::string_view name() const { return text(leat_ctf_event_name(reader_)); }
    [[nodiscard]] std::uint64_t id() const { return leat_ctf_event_id(reader_); }
    [[nodiscard]] std::optional<std::int64_t> time_ns() const { return found(leat_ctf_event_time); }
    [[nodiscard]] std::optional<std::uint64_t> cycles() const { return found(leat_ctf_event_cycles); }
    [[nodiscard]] std::optional<std::int64_t> log_level() const { return found(leat_ctf_event_log_level); }
    [[nodiscard]] std::string_view stream() const { return text(leat_ctf_event_stream(reader_)); }
    [[nodiscard]] std::optional<std::uint64_t> stream_id() const { return found(leat_ctf_event_stream_id); }
    // Of its trace.
    [[nodiscard]] std::optional<std::string_view> environment_text(const char* name) const {
        const char* const text = leat_ctf_environment_text(reader_, name);
        return text == nullptr ? std::nullopt : std::optional<std::string_view>(text);
    }
    [[nodiscard]] std::optional<std::int64_t> environment_number(const char* name) const {
        std::int64_t number = 0;
        return leat_ctf_environment_number(reader_, name, &number) ? std::optional(number) : std::nullopt;
    }

    [[nodiscard]] value scope(leat_ctf_scope scope) const { return value(leat_ctf_get_scope(reader_, scope)); }
    [[nodiscard]] value fields() const { return scope(LEAT_CTF_FIELDS); }
    // A field of the payload, or else a context.
    [[nodiscard]] value operator[](const char* name) const { return value(leat_ctf_find(reader_, name)); }

  private:
    static std::string_view text(const char* found) { return found == nullptr ? "" : found; }
    template <class T>
    std::optional<T> found(int (*get)(const leat_ctf_reader*, T*)) const {
        T number = 0;
        return get(reader_, &number) ? std::optional<T>(number) : std::nullopt;
    }

    leat_ctf_reader* reader_;
};

// Some rows of a table. It outlives its reader.
class columns {
  public:
    explicit columns(leat_ctf_columns* read) : columns_(read) {}

    [[nodiscard]] std::uint64_t row_count() const { return leat_ctf_row_count(columns_.get()); }
    [[nodiscard]] std::size_t size() const { return leat_ctf_column_count(columns_.get()); }
    [[nodiscard]] const leat_ctf_column& operator[](std::size_t number) const {
        return *leat_ctf_get_column(columns_.get(), number);
    }

  private:
    struct free {
        void operator()(leat_ctf_columns* read) const { leat_ctf_free_columns(read); }
    };
    std::unique_ptr<leat_ctf_columns, free> columns_;
};

// Traces in or below some directories. Moves; throws leat::ctf::error.
class reader {
  public:
    struct options : leat_ctf_options {
        options() : leat_ctf_options(LEAT_CTF_OPTIONS) {}
    };

    explicit reader(const std::string& path, const options& wanted = {})
        : reader(std::vector<std::string>{path}, wanted) {}
    reader(std::initializer_list<std::string> paths, const options& wanted = {})
        : reader(std::vector<std::string>(paths), wanted) {}
    explicit reader(const std::vector<std::string>& paths, const options& wanted = {}) {
        std::vector<const char*> names;
        for (const std::string& path : paths) names.push_back(path.c_str());
        char why[LEAT_CTF_ERROR_SIZE] = "";
        reader_.reset(leat_ctf_open(names.data(), names.size(), &wanted, why));
        if (reader_ == nullptr) throw error(why);
    }

    // False: the traces have ended.
    bool next() {
        const int state = leat_ctf_next(reader_.get());
        if (state < 0) fail();
        return state != 0;
    }
    [[nodiscard]] event current() const { return event(reader_.get()); }
    // As leat_ctf_set_interrupt().
    void set_interrupt(int (*is_wanted)(void* data), void* data) {
        leat_ctf_set_interrupt(reader_.get(), is_wanted, data);
    }
    void seek(std::int64_t time_ns) {
        if (leat_ctf_seek(reader_.get(), time_ns) != 0) fail();
    }
    [[nodiscard]] leat_ctf_losses losses() const {
        leat_ctf_losses found;
        leat_ctf_get_losses(reader_.get(), &found);
        return found;
    }
    // Of all columns, or of these. Fewer rows than `max_rows`: the traces have ended, or the next call throws. With
    // UINT64_MAX, which is all of them, this one does.
    columns read_columns(std::uint64_t max_rows) {
        return checked(leat_ctf_read_columns(reader_.get(), nullptr, 0, max_rows), max_rows);
    }
    columns read_columns(const std::vector<std::string>& names, std::uint64_t max_rows) {
        std::vector<const char*> titles;
        for (const std::string& name : names) titles.push_back(name.c_str());
        const char* const none = nullptr;
        return checked(
            leat_ctf_read_columns(reader_.get(), titles.empty() ? &none : titles.data(), titles.size(), max_rows),
            max_rows);
    }

    // The events from the next one on, once.
    class iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = event;
        using difference_type = std::ptrdiff_t;
        using pointer = const event*;
        using reference = event;

        explicit iterator(reader* source = nullptr) : source_(source) {}
        event operator*() const { return source_->current(); }
        iterator& operator++() {
            if (!source_->next()) source_ = nullptr;
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(const iterator& other) const { return source_ == other.source_; }
        bool operator!=(const iterator& other) const { return source_ != other.source_; }

      private:
        reader* source_;
    };
    iterator begin() { return iterator(next() ? this : nullptr); }
    iterator end() { return iterator(nullptr); }

  private:
    [[noreturn]] void fail() const {
        const char* const text = leat_ctf_error(reader_.get());
        throw error(text == nullptr ? "no reader" : text);
    }
    columns checked(leat_ctf_columns* read, std::uint64_t max_rows) const {
        if (read == nullptr) fail();
        columns found(read);
        if (max_rows == UINT64_MAX && leat_ctf_error(reader_.get()) != nullptr) fail();
        return found;
    }

    struct close {
        void operator()(leat_ctf_reader* open) const { leat_ctf_close(open); }
    };
    std::unique_ptr<leat_ctf_reader, close> reader_;
};

}  // namespace leat::ctf

#endif

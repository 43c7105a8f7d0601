// Messages of LTTng's network protocols: big-endian integers and names, one behind the other, without gaps.
//
// A message type lists its fields once, in `layout`. Encoder, decoder and size come from that list:
//
//     struct CloseStream {
//         static constexpr const char* kName = "CLOSE_STREAM";
//         std::uint64_t stream_id = 0;
//         std::uint64_t last_net_seq_num = 0;
//         static constexpr void layout(auto& at, auto& message) {
//             at.fields(message.stream_id, message.last_net_seq_num);
//         }
//     };
//     const Bytes bytes = encode(CloseStream{.stream_id = 7});
//     const CloseStream message = LEAT_TRY(parse<CloseStream>(bytes));
//     static_assert(kSizeOf<CloseStream> == 16);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/check.hpp"
#include "base/result.hpp"

namespace leat::wire {

using Bytes = std::vector<std::byte>;

// The version that both ends of a connection speak: 2.MINOR. Some messages have changed their form.
inline constexpr std::uint32_t kProtocolMajor = 2;
inline constexpr std::uint32_t kProtocolMinor = 13;

// Commands, codes and states are enums. A peer may send a number that no enumerator has: it is read as it is, and
// whoever looks at the value refuses it. In messages to people an enum is its number.
template <class Enum>
    requires std::is_enum_v<Enum>
constexpr auto format_as(Enum value) {
    return static_cast<std::underlying_type_t<Enum>>(value);
}

// Appends a message to bytes that are to be sent.
class LayoutWriter {
  public:
    LayoutWriter(Bytes& bytes, std::uint32_t minor) : bytes_(&bytes), minor_(minor) {}

    static constexpr bool kIsReader = false;
    [[nodiscard]] std::uint32_t minor() const { return minor_; }

    template <class... T>
    void fields(const T&... values) {
        (put(values), ...);
    }
    void raw(const std::array<std::uint8_t, 16>& bytes);
    void skip(std::size_t count) { bytes_->resize(bytes_->size() + count); }
    // A name in a field of fixed size, NUL behind it.
    void padded(const std::string& text, std::size_t size);
    // The length of a name that follows later, its NUL included.
    std::uint32_t length(const std::string& text);
    // The same, but 0 for an empty name, of which then nothing follows.
    std::uint32_t length_if_any(const std::string& text);
    void terminated(const std::string& text, std::uint32_t length, std::uint32_t max);

  private:
    template <class T>
    void put(const T& value) {
        if constexpr (std::is_enum_v<T>)
            return put(static_cast<std::underlying_type_t<T>>(value));
        else
            put_integer(value);
    }
    template <class T>
    void put_integer(const T& value) {
        static_assert(std::is_unsigned_v<T>);
        // Not insert(): GCC 12 warns of an overflow when it sees that the bytes are empty so far.
        const std::size_t begin = bytes_->size();
        bytes_->resize(begin + sizeof(T));
        std::byte* const big_endian = bytes_->data() + begin;
        for (std::size_t i = 0; i < sizeof(T); ++i)
            big_endian[i] = static_cast<std::byte>(value >> (8 * (sizeof(T) - 1 - i)));
    }
    Bytes* bytes_;
    std::uint32_t minor_;
};

// Takes a message out of bytes that a peer sent. The first fault stays; whatever follows it reads as zero.
class LayoutReader {
  public:
    LayoutReader(UntrustedBytes bytes, std::uint32_t minor) : cursor_(bytes), minor_(minor) {}

    static constexpr bool kIsReader = true;
    [[nodiscard]] std::uint32_t minor() const { return minor_; }

    template <class... T>
    void fields(T&... values) {
        (get(values), ...);
    }
    void raw(std::array<std::uint8_t, 16>& bytes);
    void skip(std::size_t count) { take(count); }
    void padded(std::string& text, std::size_t size);
    std::uint32_t length(const std::string& text);
    std::uint32_t length_if_any(const std::string& text) { return length(text); }
    // `length` may be 0 or 1 for an empty name; at most `max`, its NUL included.
    void terminated(std::string& text, std::uint32_t length, std::uint32_t max);
    [[nodiscard]] std::size_t remaining() const { return cursor_.remaining(); }
    void fault(Error error);

    // Whether all was well, and nothing is left behind the message.
    [[nodiscard]] Result<void> finish() const;

  private:
    UntrustedBytes take(std::size_t count);
    template <class T>
    void get(T& value) {
        if constexpr (std::is_enum_v<T>) {
            std::underlying_type_t<T> number = 0;
            get_integer(number);
            value = static_cast<T>(number);
        } else {
            get_integer(value);
        }
    }
    template <class T>
    void get_integer(T& value) {
        static_assert(std::is_unsigned_v<T>);
        value = 0;
        for (const std::byte byte : take(sizeof(T))) value = static_cast<T>(value << 8) | std::to_integer<T>(byte);
    }

    ByteCursor cursor_;
    std::uint32_t minor_;
    Result<void> outcome_{};
};

// Counts the bytes of a message, at compile time. Of a name of variable length it counts the length alone.
class LayoutSize {
  public:
    static constexpr bool kIsReader = false;
    [[nodiscard]] static constexpr std::uint32_t minor() { return kProtocolMinor; }

    template <class... T>
    constexpr void fields(const T&... /*values*/) {
        bytes_ += (sizeof(T) + ...);
    }
    constexpr void padded(const std::string& /*text*/, std::size_t size) { bytes_ += size; }
    constexpr std::uint32_t length_if_any(const std::string& /*text*/) {
        has_names_ = true;
        bytes_ += sizeof(std::uint32_t);
        return 0;
    }
    constexpr void terminated(const std::string& /*text*/, std::uint32_t /*length*/, std::uint32_t /*max*/) {}

    [[nodiscard]] constexpr std::size_t bytes() const { return bytes_; }
    [[nodiscard]] constexpr bool has_names() const { return has_names_; }

  private:
    std::size_t bytes_ = 0;
    bool has_names_ = false;
};

// Some fields of a struct that messages embed: pointers to its members, in the order of their bytes.
template <class Layout, class Struct, class Members>
constexpr void fields_of(Layout& at, Struct& values, const Members& members) {
    for (const auto member : members) at.fields(values.*member);
}

template <class Message>
void append(Bytes& bytes, const Message& message, std::uint32_t minor = kProtocolMinor) {
    LayoutWriter writer(bytes, minor);
    Message::layout(writer, message);
}

template <class Message>
Bytes encode(const Message& message, std::uint32_t minor = kProtocolMinor) {
    Bytes bytes;
    append(bytes, message, minor);
    return bytes;
}

// The whole of `bytes` is one message. Errors name it.
template <class Message>
Result<Message> parse(UntrustedBytes bytes, std::uint32_t minor = kProtocolMinor) {
    LayoutReader reader(bytes, minor);
    Message message;
    Message::layout(reader, message);
    auto outcome = reader.finish();
    if (!outcome) return wrap(Message::kName, std::move(outcome).error());
    return message;
}

// A message that is never made: LayoutSize looks at the types of its members only. (Not a plain message, because clang
// 16 cannot make a std::string of libstdc++ 12 at compile time.)
template <class Message>
union Unmade {
    constexpr Unmade() : nothing() {}
    constexpr ~Unmade() {}
    std::byte nothing;
    Message message;
};

template <class Message>
consteval LayoutSize measure() {
    LayoutSize size;
    Unmade<Message> unmade;
    Message::layout(size, unmade.message);
    return size;
}

// In the newest minor version: bytes of the part of fixed size, for those who read a message from a socket: its last
// u32 is the length of the name that follows.
template <class Message>
inline constexpr std::size_t kHeadSizeOf = measure<Message>().bytes();

// In the newest minor version: bytes of a message that has no name of variable length.
template <class Message>
    requires(!measure<Message>().has_names())
inline constexpr std::size_t kSizeOf = kHeadSizeOf<Message>;

}  // namespace leat::wire

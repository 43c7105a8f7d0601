// Every kind of field that LEAT_EVENT takes, with values at its limits. tests/interop/tracer.py has the text of each.
#include <array>
#include <cstdint>
#include <cstdio>
#include <leat/event.hpp>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace {

enum class Color : std::uint8_t { kRed = 1, kAll = 255 };
enum Direction : int { kBack = -1 };
enum Plain { kNone, kSome };
enum PlainSigned { kBelow = -2 };

template <class T>
void edges() {
    const T low = std::numeric_limits<T>::lowest();
    const T high = std::numeric_limits<T>::max();
    LEAT_EVENT("cpp:edges", low, high);  // each T is another event of this name: told apart below
}

void numbers() {
    const auto i8 = std::numeric_limits<std::int8_t>::min();
    const auto u8 = std::numeric_limits<std::uint8_t>::max();
    const auto i64 = std::numeric_limits<std::int64_t>::min();
    const auto u64 = std::numeric_limits<std::uint64_t>::max();
    const char letter = 'A';
    const bool yes = true;
    LEAT_EVENT("cpp:integers", i8, u8, i64, u64, letter, yes);
    LEAT_EVENT("cpp:separated", LEAT_FIELD(ms, 5'000'000 / 1'000), LEAT_FIELD(comma, u8','), LEAT_FIELD(hex, 0xff'ff));
    const float f = 0.25F;
    const double d = -1e300;
    LEAT_EVENT("cpp:floating", f, d);
    const Color color = Color::kAll;
    LEAT_EVENT("cpp:enums", color, LEAT_FIELD(direction, kBack), LEAT_FIELD(plain, kSome), LEAT_FIELD(below, kBelow));
    const void* nothing = nullptr;
    LEAT_EVENT("cpp:hex", nothing, LEAT_FIELD(byte, leat::hex(std::uint8_t{255})), LEAT_FIELD(word, leat::hex(-1)));
    LEAT_EVENT("cpp:network", LEAT_FIELD(port, leat::network(std::uint16_t{0x5000})));
}

void texts() {
    const char* none = nullptr;
    const char array[8] = "array";
    const char full[3] = {'a', 'b', 'c'};
    const std::string with_nul("with\0nul", 8);
    const std::string_view view = std::string_view("a view").substr(2);
    LEAT_EVENT("cpp:texts", none, array, full, with_nul, view, LEAT_FIELD(literal, "lit, \"eral\""),
               LEAT_FIELD(empty, std::string()));
    // One text among numbers goes straight to the ring.
    LEAT_EVENT("cpp:text_first", with_nul, LEAT_FIELD(one, 1));
    LEAT_EVENT("cpp:text_within", LEAT_FIELD(two, 2.5), none, LEAT_FIELD(address, leat::hex(std::uint8_t{3})),
               LEAT_FIELD(port, leat::network(std::uint16_t{0x5000})));
    LEAT_EVENT("cpp:text_alone", LEAT_FIELD(empty, std::string()));
}

void lists() {
    const int array[] = {-1, 0, 1};
    const std::array<std::uint16_t, 2> fixed{1, 65535};
    const std::vector<double> some{0.5, -0.5};
    const std::vector<std::uint8_t> none;
    LEAT_EVENT("cpp:lists", array, fixed, some, none);
    const std::vector<std::uint8_t> large(5000, 3);
    LEAT_EVENT("cpp:large", large, LEAT_FIELD(size, large.size()));
}

void hidden() {
    const std::uint8_t first = 1;
    const std::vector<std::uint8_t> large(5000, 3);
    LEAT_EVENT("cpp:hidden", LEAT_FIELD(secret, leat::hidden(7)), first, LEAT_FIELD(text, leat::hidden("text")),
               LEAT_FIELD(address, leat::hidden(leat::hex(255))), LEAT_FIELD(last, std::uint8_t{9}));
    LEAT_EVENT("cpp:hidden_large", LEAT_FIELD(bytes, leat::hidden(large)), first);
    LEAT_EVENT_URI(LEAT_INFO, "http://example.org/cpp/modelled", "cpp:modelled", first);
}

}  // namespace

int main() {
    numbers();
    texts();
    lists();
    hidden();
    edges<std::int32_t>();
    LEAT_EVENT_AT(LEAT_EMERG, "cpp:level", LEAT_FIELD(answer, 6 * 7));
    return 0;
}

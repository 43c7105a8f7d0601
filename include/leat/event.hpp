// LEAT_EVENT: a tracepoint in one line, for C++17 and later; names and types are worked out at compile time.
//
//     #include <leat/event.hpp>
//
//     LEAT_EVENT("io:queued", id, length);
//     LEAT_EVENT("io:queued", LEAT_FIELD(id, request->id), LEAT_FIELD(address, leat::hex(request->address)));
//     LEAT_EVENT_AT(LEAT_WARNING, "io:retried", LEAT_FIELD(reason), LEAT_FIELD(spent_us, timer.microseconds()));
//
// A field is a variable, which gives it its name, or LEAT_FIELD(name, expression). There may be any number of fields.
// An expression is evaluated only if the event is enabled, and once. It may be of these types:
//
//     integers of all sizes, bool, char, enumerations (as integers), float, double
//     pointers (base 16); leat::hex(n): base 16; leat::network(n): an integer whose bytes are big-endian already
//     const char* (nullptr is "(null)"), char arrays, std::string, std::string_view: text up to its first NUL
//     arrays and std::array of arithmetic type; anything else with data() and size() of such: a sequence
//
// Any thread, also inside signal handlers; nothing allocates, locks or waits. A record holds up to a quarter of its
// ring, and at most 256 KiB; a larger one is counted as discarded.
#ifndef LEAT_EVENT_HPP
#define LEAT_EVENT_HPP

#include <leat/tracepoint.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define LEAT_EVENT(name, ...) LEAT_EVENT_(LEAT_DEBUG_LINE, name, #__VA_ARGS__, __VA_ARGS__)
#define LEAT_EVENT_AT(level, name, ...) LEAT_EVENT_(level, name, #__VA_ARGS__, __VA_ARGS__)

// LEAT_FIELD(variable) or LEAT_FIELD(name, expression)
#define LEAT_FIELD(...) LEAT_FIELD_PICK_(__VA_ARGS__, LEAT_FIELD_NAMED_, LEAT_FIELD_PLAIN_, )(__VA_ARGS__)
#define LEAT_FIELD_PICK_(first, second, chosen, ...) chosen
#define LEAT_FIELD_PLAIN_(variable) (variable)
#define LEAT_FIELD_NAMED_(name, expression) (expression)

#define LEAT_EVENT_(level_, name_, text_, ...)                                                             \
    do {                                                                                                   \
        struct leat_site {                                                                                 \
            static constexpr const char* name() { return name_; }                                          \
            static constexpr std::size_t name_size() { return sizeof(name_); }                             \
            static constexpr const char* text() { return text_; }                                          \
            static constexpr std::size_t text_size() { return sizeof(text_); }                             \
            static constexpr const char* file() { return __FILE__; }                                       \
            static constexpr std::uint32_t line() { return __LINE__; }                                     \
            static constexpr std::int32_t level() { return level_; }                                       \
        };                                                                                                 \
        using leat_event = ::leat::detail::Event<leat_site, decltype(::leat::detail::types(__VA_ARGS__))>; \
        if (LEAT_IS_ENABLED_(leat_event::tracepoint)) leat_event::emit(__VA_ARGS__);                       \
    } while (false)

namespace leat {

// Shown in base 16.
template <class T>
struct Hex {
    T value;
};
template <class T>
constexpr Hex<T> hex(T value) {
    static_assert(std::is_integral<T>::value, "leat::hex takes an integer");
    return {value};
}

// An integer whose bytes are in network order (big-endian) already, as in a packet.
template <class T>
struct Network {
    T value;
};
template <class T>
constexpr Network<T> network(T value) {
    static_assert(std::is_integral<T>::value, "leat::network takes an integer");
    return {value};
}

namespace detail {

template <class... T>
struct Types {};

// Only ever used unevaluated. Arrays stay arrays.
template <class... T>
Types<T...> types(const T&...);

template <class T>
inline constexpr bool is_scalar =
    (std::is_arithmetic<T>::value && !std::is_same<T, long double>::value) || std::is_enum<T>::value;

template <class T>
constexpr leat_field element_field(const char* name, leat_shape shape, std::uint32_t count, unsigned flags,
                                   unsigned length_size) {
    static_assert(is_scalar<T> && sizeof(T) <= 8, "leat: this type cannot be recorded; pass something simpler");
    constexpr bool is_signed =
        std::is_enum<T>::value ? (static_cast<T>(-1) < static_cast<T>(0)) : std::is_signed<T>::value;
    constexpr bool is_float = std::is_floating_point<T>::value;
    return {name,
            nullptr,
            count,
            static_cast<std::uint8_t>(shape),
            static_cast<std::uint8_t>(is_float ? LEAT_ELEMENT_FLOAT : LEAT_ELEMENT_INTEGER),
            static_cast<std::uint8_t>(sizeof(T)),
            static_cast<std::uint8_t>((is_signed && !is_float ? unsigned{LEAT_FIELD_SIGNED} : 0U) | flags),
            static_cast<std::uint8_t>(length_size)};
}

// How a C++ type becomes a field: its description, its size, its bytes.
template <class T, class = void>
struct Field {
    static_assert(is_scalar<T>, "leat: this type cannot be recorded; pass a number, text, an array or a view of one");
    static constexpr leat_field describe(const char* name) {
        return element_field<T>(name, LEAT_SHAPE_SCALAR, 0, 0, 0);
    }
    static std::size_t measure(const T&) { return sizeof(T); }
    static void store(leat_packer& to, const T& value, std::size_t) { leat_store_scalar(&to, &value, sizeof value); }
};

template <class T>
struct Field<Hex<T>> {
    static constexpr leat_field describe(const char* name) {
        return element_field<T>(name, LEAT_SHAPE_SCALAR, 0, LEAT_FIELD_HEX, 0);
    }
    static std::size_t measure(const Hex<T>&) { return sizeof(T); }
    static void store(leat_packer& to, const Hex<T>& hex, std::size_t) {
        leat_store_scalar(&to, &hex.value, sizeof(T));
    }
};

template <class T>
struct Field<Network<T>> {
    static constexpr leat_field describe(const char* name) {
        return element_field<T>(name, LEAT_SHAPE_SCALAR, 0, LEAT_FIELD_NETWORK, 0);
    }
    static std::size_t measure(const Network<T>&) { return sizeof(T); }
    static void store(leat_packer& to, const Network<T>& value, std::size_t) {
        leat_store_scalar(&to, &value.value, sizeof(T));
    }
};

// Text: NUL-terminated in the record.
struct TextField {
    static constexpr leat_field describe(const char* name) {
        return {name, nullptr, 0, LEAT_SHAPE_STRING, LEAT_ELEMENT_INTEGER, 1, 0, 0};
    }
    static std::size_t bounded_length(const char* chars, std::size_t limit) {
        const void* end = limit == 0 ? nullptr : std::memchr(chars, 0, limit);
        return end == nullptr ? limit : static_cast<std::size_t>(static_cast<const char*>(end) - chars);
    }
    static void store_bounded(leat_packer& to, const char* chars, std::size_t size) {
        leat_store_string(&to, chars, size - 1);
    }
};

template <class T>
struct Field<T*, std::enable_if_t<std::is_same<std::remove_cv_t<T>, char>::value>> : TextField {
    static std::size_t measure(const char* chars) { return std::strlen(leat_no_null(chars)) + 1; }
    static void store(leat_packer& to, const char* chars, std::size_t size) {
        store_bounded(to, leat_no_null(chars), size);
    }
};

template <std::size_t N>
struct Field<char[N]> : TextField {
    static std::size_t measure(const char (&chars)[N]) { return bounded_length(chars, N) + 1; }
    static void store(leat_packer& to, const char (&chars)[N], std::size_t size) { store_bounded(to, chars, size); }
};

template <class T>
struct Field<T*, std::enable_if_t<!std::is_same<std::remove_cv_t<T>, char>::value>> {
    static constexpr leat_field describe(const char* name) {
        return element_field<std::uintptr_t>(name, LEAT_SHAPE_SCALAR, 0, LEAT_FIELD_HEX, 0);
    }
    static std::size_t measure(T* const&) { return sizeof(T*); }
    static void store(leat_packer& to, T* const& pointer, std::size_t) {
        leat_store_scalar(&to, &pointer, sizeof pointer);
    }
};

template <class T, std::size_t N>
struct Field<T[N], std::enable_if_t<!std::is_same<T, char>::value>> {
    static constexpr leat_field describe(const char* name) {
        return element_field<std::remove_cv_t<T>>(name, LEAT_SHAPE_ARRAY, N, 0, 0);
    }
    static std::size_t measure(const T (&)[N]) { return sizeof(T) * N; }
    static void store(leat_packer& to, const T (&array)[N], std::size_t) {
        leat_store_bytes(&to, array, sizeof(T) * N);
    }
};

// Any type with data() and size(): std::string and its view are text, std::array an array, the rest sequences.
template <class T>
using ElementOf = std::remove_cv_t<std::remove_pointer_t<decltype(std::declval<const T&>().data())>>;

template <class T, class = void>
struct FixedSize : std::false_type {};
template <class T>
struct FixedSize<T, std::enable_if_t<(std::tuple_size<T>::value > 0)>> : std::true_type {};

template <class T>
struct Field<T, std::enable_if_t<std::is_class<T>::value && std::is_same<ElementOf<T>, char>::value>> : TextField {
    static std::size_t measure(const T& text) { return leat_add_size(bounded_length(text.data(), text.size()), 1); }
    static void store(leat_packer& to, const T& text, std::size_t size) { store_bounded(to, text.data(), size); }
};

template <class T>
struct Field<T, std::enable_if_t<std::is_class<T>::value && !std::is_same<ElementOf<T>, char>::value>> {
    using Element = ElementOf<T>;
    using Length = std::uint32_t;

    static constexpr leat_field describe(const char* name) {
        if constexpr (FixedSize<T>::value)
            return element_field<Element>(name, LEAT_SHAPE_ARRAY, std::tuple_size<T>::value, 0, 0);
        else
            return element_field<Element>(name, LEAT_SHAPE_SEQUENCE, 0, 0, sizeof(Length));
    }
    static std::size_t measure(const T& items) {
        return leat_add_sequence(0, FixedSize<T>::value ? 0 : sizeof(Length), items.size(), sizeof(Element));
    }
    // `size` is what was measured, and there is room for that: a container that has grown since is cut.
    static void store(leat_packer& to, const T& items, std::size_t size) {
        if constexpr (!FixedSize<T>::value) {
            const auto length = static_cast<Length>((size - sizeof(Length)) / sizeof(Element));
            leat_store_scalar(&to, &length, sizeof length);
            size -= sizeof length;
        }
        leat_store_bytes(&to, items.data(), size);
    }
};

constexpr bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The field names in the text of a LEAT_EVENT's arguments, each with its NUL.
template <std::size_t N, std::size_t TextSize>
struct FieldNames {
    char text[TextSize + 1]{};
    std::size_t begin[N + 1]{};
    bool is_good = true;

    constexpr explicit FieldNames(const char* source) {
        std::size_t filled = 0;
        for (std::size_t field = 0; field < N; ++field) {
            source = skip_spaces(source);
            const char* name = skip_spaces(after_macro(source));
            begin[field] = filled;
            while (is_name_char(*name)) text[filled++] = *name++;
            text[filled++] = '\0';
            name = skip_spaces(name);
            const bool ends_well = *name == ',' || *name == ')' || *name == '\0';
            is_good = is_good && filled > begin[field] + 1 && ends_well;
            source = after_comma(source);
        }
    }

  private:
    static constexpr const char* skip_spaces(const char* at) {
        while (*at == ' ' || *at == '\t' || *at == '\n') ++at;
        return at;
    }
    // The place after "LEAT_FIELD(", or `at` itself.
    static constexpr const char* after_macro(const char* at) {
        const char* macro = "LEAT_FIELD";
        const char* rest = at;
        while (*macro != '\0' && *rest == *macro) ++rest, ++macro;
        if (*macro != '\0') return at;
        rest = skip_spaces(rest);
        return *rest == '(' ? rest + 1 : at;
    }
    static constexpr const char* after_comma(const char* at) {
        int depth = 0;
        for (; *at != '\0'; ++at) {
            if (*at == '"' || *at == '\'') at = end_of_literal(at);
            if (*at == '(' || *at == '[' || *at == '{') ++depth;
            if (*at == ')' || *at == ']' || *at == '}') --depth;
            if (*at == ',' && depth == 0) return at + 1;
        }
        return at;
    }
    static constexpr const char* end_of_literal(const char* at) {
        const char quote = *at++;
        while (*at != '\0' && *at != quote) at += *at == '\\' && at[1] != '\0' ? 2 : 1;
        return at;
    }
};

// How a site hands a value on: small ones by value, so that a variable may stay in its register where the event is off.
template <class T>
using Handed = std::conditional_t<!std::is_array<T>::value && std::is_trivially_copy_constructible<T>::value &&
                                      sizeof(T) <= 2 * sizeof(void*),
                                  T, const T&>;

template <class Site, class Fields>
struct Event;

// Hidden: each module has its own, and the linker needs no run-time symbol for it.
template <class Site, class... T>
struct __attribute__((visibility("hidden"))) Event<Site, Types<T...>> {
    static constexpr std::size_t kFields = sizeof...(T);
    static constexpr FieldNames<kFields, Site::text_size() + kFields> names{Site::text()};
    static_assert(names.is_good, "leat: a field is a variable or LEAT_FIELD(name, expression)");
    static_assert(Site::name_size() <= 256, "leat: an event name has at most 255 characters");
    static_assert(Site::level() >= 0 && Site::level() <= 14, "leat: a log level is 0 to 14");

    struct Fields {
        leat_field all[kFields + 1];
    };
    template <std::size_t... I>
    static constexpr Fields describe(std::index_sequence<I...>) {
        return {{Field<T>::describe(names.text + names.begin[I])..., leat_field{}}};
    }
    static constexpr Fields fields = describe(std::index_sequence_for<T...>{});

    static leat_tracepoint tracepoint;

    __attribute__((noinline, hot)) static void emit(Handed<T>... values) {
        announce();
        [[maybe_unused]] std::size_t sizes[kFields + 1]{};
        std::size_t size = 0;
        [[maybe_unused]] std::size_t index = 0;
        ((sizes[index] = Field<T>::measure(values), size = leat_add_size(size, sizes[index++])), ...);
        leat_stage stage;
        char* payload = leat_stage_begin(&stage, &tracepoint, size);
        if (payload == nullptr) return;
        leat_packer to{payload, 0, 0};
        index = 0;
        (Field<T>::store(to, values, sizes[index++]), ...);
        leat_pack_rest(&to);
        leat_stage_end(&tracepoint, payload, size, LEAT_SITE_ADDRESS_);
    }

  private:
    // Puts a pointer to the tracepoint where <leat/module.h> finds it: an attribute would not do it inside templates
    // and inline functions. '?': it goes with this function if the linker drops that as a duplicate.
    __attribute__((always_inline)) static void announce() {
        __asm__ volatile(".pushsection leat_tracepoints,\"" LEAT_SECTION_FLAGS_
                         "?\",@progbits\n\t.balign 8\n\t.quad %c0\n\t.popsection" ::"i"(&tracepoint));
    }
};

template <class Site, class... T>
leat_tracepoint Event<Site, Types<T...>>::tracepoint{&tracepoint.off,
                                                     0,
                                                     Site::line(),
                                                     Site::name(),
                                                     Site::file(),
                                                     nullptr,
                                                     fields.all,
                                                     static_cast<std::uint32_t>(kFields),
                                                     Site::level(),
                                                     0,
                                                     0,
                                                     {}};

}  // namespace detail
}  // namespace leat

#endif

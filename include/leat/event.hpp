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
//     leat::hidden(any of these): it is not recorded; the daemon knows its name and type, for filters to come
//
// LEAT_EVENT_URI(level, uri, "io:queued", id, length) is an event of a model (CTF: model.emf.uri), which tools may look
// up.
//
// LEAT_STICKY(key, "queue:named", id, name) is a sticky event: <leat/sticky.h> says what that means. It records `id`
// and `name`, and LEAT_FORGET(key, "queue:named") forgets the value.
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

#define LEAT_EVENT(name, ...) LEAT_EVENT_(LEAT_DEBUG_LINE, nullptr, name, #__VA_ARGS__, __VA_ARGS__)
#define LEAT_EVENT_AT(level, name, ...) LEAT_EVENT_(level, nullptr, name, #__VA_ARGS__, __VA_ARGS__)
#define LEAT_EVENT_URI(level, uri, name, ...) LEAT_EVENT_(level, uri, name, #__VA_ARGS__, __VA_ARGS__)

// LEAT_FIELD(variable) or LEAT_FIELD(name, expression)
#define LEAT_FIELD(...) LEAT_FIELD_PICK_(__VA_ARGS__, LEAT_FIELD_NAMED_, LEAT_FIELD_PLAIN_, )(__VA_ARGS__)
#define LEAT_FIELD_PICK_(first, second, chosen, ...) chosen
#define LEAT_FIELD_PLAIN_(variable) (variable)
#define LEAT_FIELD_NAMED_(name, expression) (expression)

#define LEAT_EVENT_(level, uri, name, text, ...)                                      \
    do {                                                                              \
        LEAT_SITE_(level, uri, 0, name, text, __VA_ARGS__);                           \
        if (LEAT_IS_ENABLED_(leat_event::tracepoint)) leat_event::emit_(__VA_ARGS__); \
    } while (false)

#define LEAT_STICKY(key, name, ...)                                                                    \
    do {                                                                                               \
        LEAT_SITE_(LEAT_DEBUG_LINE, nullptr, LEAT_TRACEPOINT_STICKY, name, #__VA_ARGS__, __VA_ARGS__); \
        leat_event::stick(static_cast<std::uint64_t>(key), __VA_ARGS__);                               \
    } while (false)
#define LEAT_FORGET(key, name) ::leat::detail::forget(name, static_cast<std::uint64_t>(key))

// The text is made by who gets the fields as they are written: here, macros in them would be expanded.
#define LEAT_SITE_(level_, uri_, flags_, name_, text_, ...)                \
    struct leat_site {                                                     \
        static constexpr const char* name() { return name_; }              \
        static constexpr std::size_t name_size() { return sizeof(name_); } \
        static constexpr const char* text() { return text_; }              \
        static constexpr std::size_t text_size() { return sizeof(text_); } \
        static constexpr const char* file() { return __FILE__; }           \
        static constexpr std::uint32_t line() { return __LINE__; }         \
        static constexpr std::int32_t level() { return level_; }           \
        static constexpr const char* uri() { return uri_; }                \
        static constexpr std::uint32_t flags() { return flags_; }          \
    };                                                                     \
    using leat_event = ::leat::detail::Event<leat_site, decltype(::leat::detail::types(__VA_ARGS__))>

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

// Not recorded. Refers to the value, which lives until the event is written.
template <class T>
struct Hidden {
    const T& value;
};
template <class T>
constexpr Hidden<T> hidden(const T& value) {
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

// An enum may not have the value -1, so that compilers refuse to make it.
template <class T, bool = std::is_enum<T>::value>
struct IsSigned : std::is_signed<T> {};
template <class T>
struct IsSigned<T, true> : std::is_signed<std::underlying_type_t<T>> {};

template <class T>
constexpr leat_field element_field(const char* name, leat_shape shape, std::uint32_t count, unsigned flags,
                                   unsigned length_size) {
    static_assert(is_scalar<T> && sizeof(T) <= 8, "leat: this type cannot be recorded; pass something simpler");
    constexpr bool is_float = std::is_floating_point<T>::value;
    return {name,
            nullptr,
            count,
            static_cast<std::uint8_t>(shape),
            static_cast<std::uint8_t>(is_float ? LEAT_ELEMENT_FLOAT : LEAT_ELEMENT_INTEGER),
            static_cast<std::uint8_t>(sizeof(T)),
            static_cast<std::uint8_t>((IsSigned<T>::value && !is_float ? unsigned{LEAT_FIELD_SIGNED} : 0U) | flags),
            static_cast<std::uint8_t>(length_size),
            0};
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

template <class T>
struct Field<Hidden<T>> {
    static constexpr leat_field describe(const char* name) {
        leat_field field = Field<T>::describe(name);
        field.is_hidden = 1;
        return field;
    }
    static std::size_t measure(const Hidden<T>& hidden) { return Field<T>::measure(hidden.value); }
    static void store(leat_packer& to, const Hidden<T>& hidden, std::size_t size) {
        Field<T>::store(to, hidden.value, size);
    }
};

template <class T>
inline constexpr bool is_hidden = false;
template <class T>
inline constexpr bool is_hidden<Hidden<T>> = true;

// Text: NUL-terminated in the record.
struct TextField {
    static constexpr leat_field describe(const char* name) {
        return {name, nullptr, 0, LEAT_SHAPE_STRING, LEAT_ELEMENT_INTEGER, 1, 0, 0, 0};
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
    static const char* chars(const char* text) { return leat_no_null(text); }
    static std::size_t measure(const char* chars) { return std::strlen(leat_no_null(chars)) + 1; }
    static void store(leat_packer& to, const char* chars, std::size_t size) {
        store_bounded(to, leat_no_null(chars), size);
    }
};

template <std::size_t Count>
struct Field<char[Count]> : TextField {
    static std::size_t measure(const char (&chars)[Count]) { return bounded_length(chars, Count) + 1; }
    static void store(leat_packer& to, const char (&chars)[Count], std::size_t size) { store_bounded(to, chars, size); }
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

template <class T, std::size_t Count>
struct Field<T[Count], std::enable_if_t<!std::is_same<T, char>::value>> {
    static constexpr leat_field describe(const char* name) {
        return element_field<std::remove_cv_t<T>>(name, LEAT_SHAPE_ARRAY, Count, 0, 0);
    }
    static std::size_t measure(const T (&)[Count]) { return sizeof(T) * Count; }
    static void store(leat_packer& to, const T (&array)[Count], std::size_t) {
        leat_store_bytes(&to, array, sizeof(T) * Count);
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
    // Only of what ends with a NUL.
    static const char* chars(const T& text) { return leat_no_null(text.c_str()); }
    static std::size_t measure(const T& text) { return leat_add_size(bounded_length(data_of(text), text.size()), 1); }
    static void store(leat_packer& to, const T& text, std::size_t size) { store_bounded(to, data_of(text), size); }

  private:
    // A text is read by words, as far as it has any. gcc would warn of those behind an array that is shorter.
    static const char* data_of(const T& text) {
        const char* data = text.data();
        if constexpr (FixedSize<T>::value) __asm__("" : "+r"(data));
        return data;
    }
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

// An event of one text that ends with a NUL, and a few numbers: the text is not staged, and nobody measures it
// beforehand. As LEAT_HAS_ONE_TEXT_ in <leat/tracepoint.h>.
template <class T, class = void>
inline constexpr bool is_text = std::is_same<T, char*>::value || std::is_same<T, const char*>::value;
template <class T>
inline constexpr bool is_text<T, std::void_t<decltype(std::declval<const T&>().c_str())>> =
    std::is_same<ElementOf<T>, char>::value;

template <class T>
inline constexpr bool is_number = is_scalar<T> || (std::is_pointer<T>::value && !is_text<T>);
template <class T>
inline constexpr bool is_number<Hex<T>> = true;
template <class T>
inline constexpr bool is_number<Network<T>> = true;

template <class... T>
inline constexpr bool has_one_text =
    (0 + ... + (is_text<T> ? 1 : 0)) == 1 && (0 + ... + (is_number<T> ? 1 : 0)) == sizeof...(T) - 1 &&
    sizeof...(T) - 1 <= LEAT_TEXT_PART_SIZE / sizeof(std::uint64_t);

// Bytes of the numbers before the text, and behind it.
struct SizesAroundText {
    std::size_t head = 0;
    std::size_t tail = 0;
};
template <class... T>
constexpr SizesAroundText sizes_around_text() {
    SizesAroundText sizes;
    bool is_behind = false;
    ((is_text<T> ? void(is_behind = true) : void((is_behind ? sizes.tail : sizes.head) += sizeof(T))), ...);
    return sizes;
}

constexpr bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The field names in the text of a LEAT_EVENT's arguments, each with its NUL.
template <std::size_t Count, std::size_t TextSize>
struct FieldNames {
    char text[TextSize + 1]{};
    std::size_t begin[Count + 1]{};
    bool is_good = true;

    constexpr explicit FieldNames(const char* source) {
        std::size_t filled = 0;
        for (std::size_t field = 0; field < Count; ++field) {
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
            at = after_word(at);
            if (*at == '"' || *at == '\'') at = end_of_literal(at);
            if (*at == '\0') return at;
            if (*at == '(' || *at == '[' || *at == '{') ++depth;
            if (*at == ')' || *at == ']' || *at == '}') --depth;
            if (*at == ',' && depth == 0) return at + 1;
        }
        return at;
    }
    // The place after a name or a number, or `at` itself. The quote in 1'000 begins no literal.
    static constexpr const char* after_word(const char* at) {
        const bool is_number = *at >= '0' && *at <= '9';
        while (is_name_char(*at) || (is_number && *at == '\'')) ++at;
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

#if defined(LEAT_HAS_SDT_)
// The names of a probe, each with its NUL. The assembler cannot read a text of ours, but takes numbers: so these are
// words of 8 bytes, little-endian.
struct ProbeNames {
    static constexpr std::size_t kWords = 15;
    std::uint64_t words[kWords]{};
    std::size_t size = 0;

    constexpr explicit ProbeNames(const char* name) {
        const char* colon = name;
        while (*colon != '\0' && *colon != ':') ++colon;
        add(name, *colon == '\0' ? name : colon, "leat");
        if (*colon == ':') name = colon + 1;
        const char* end = name;
        while (*end != '\0') ++end;
        add(name, end, "_");
    }
    constexpr bool fit() const { return size <= sizeof words; }

  private:
    constexpr void add(const char* begin, const char* end, const char* if_empty) {
        if (begin == end)
            for (; *if_empty != '\0'; ++if_empty) add(*if_empty);
        for (; begin != end; ++begin) add(is_name_char(*begin) ? *begin : '_');
        add('\0');
    }
    constexpr void add(char c) {
        if (size < sizeof words)
            words[size / 8] |= static_cast<std::uint64_t>(static_cast<unsigned char>(c)) << (size % 8 * 8);
        ++size;
    }
};

// Puts a word there, or as many of its bytes as the size leaves.
// clang-format off
#define LEAT_SDT_SIZE_ "(" LEAT_SDT_META_TEXT_ " >> 48)"
#define LEAT_SDT_WORD_(n)                                                                             \
    "\t.if " LEAT_SDT_SIZE_ " >= 8 * " n " + 8\n"                                                     \
    "\t.8byte " LEAT_SDT_NUMBER_("leat_word" n) "\n"                                                  \
    "\t.elseif " LEAT_SDT_SIZE_ " > 8 * " n "\n"                                                      \
    "\t.if " LEAT_SDT_SIZE_ " & 4\n"                                                                  \
    "\t.4byte " LEAT_SDT_NUMBER_("leat_word" n) " & 0xffffffff\n"                                     \
    "\t.endif\n"                                                                                      \
    "\t.if " LEAT_SDT_SIZE_ " & 2\n"                                                                  \
    "\t.2byte (" LEAT_SDT_NUMBER_("leat_word" n) " >> (8 * (" LEAT_SDT_SIZE_ " & 4))) & 0xffff\n"     \
    "\t.endif\n"                                                                                      \
    "\t.if " LEAT_SDT_SIZE_ " & 1\n"                                                                  \
    "\t.byte (" LEAT_SDT_NUMBER_("leat_word" n) " >> (8 * (" LEAT_SDT_SIZE_ " & 6))) & 0xff\n"        \
    "\t.endif\n"                                                                                      \
    "\t.endif\n"
// clang-format on
#define LEAT_SDT_5_WORDS_(a, b, c, d, e) \
    LEAT_SDT_WORD_(a) LEAT_SDT_WORD_(b) LEAT_SDT_WORD_(c) LEAT_SDT_WORD_(d) LEAT_SDT_WORD_(e)
#define LEAT_SDT_WORDS_                        \
    LEAT_SDT_5_WORDS_("0", "1", "2", "3", "4") \
    LEAT_SDT_5_WORDS_("5", "6", "7", "8", "9") \
    LEAT_SDT_5_WORDS_("10", "11", "12", "13", "14")

// What a probe has of a value: a number, or where it lies.
template <class T>
constexpr auto probe_value(const T& value) {
    if constexpr (std::is_floating_point<T>::value)
        return leat_sdt_bits(&value, sizeof value);
    else if constexpr (std::is_enum<T>::value)
        return static_cast<std::underlying_type_t<T>>(value);
    else if constexpr (std::is_array<T>::value)
        return &value[0];
    else if constexpr (std::is_class<T>::value)
        return value.data();
    else
        return value;
}
template <class T>
constexpr T probe_value(const Hex<T>& hex) {
    return hex.value;
}
template <class T>
constexpr T probe_value(const Network<T>& network) {
    return network.value;
}
template <class T>
constexpr auto probe_value(const Hidden<T>& hidden) {
    return probe_value(hidden.value);
}

#endif

#if !defined(__x86_64__)
// A one-line sticky event, which is a module of its own (Event::OwnModule). Those of this program or library are
// linked: they stay until its memory goes.
struct StickyModule {
    const leat_module* module;
    StickyModule* next;
};
__attribute__((__visibility__("hidden"))) inline StickyModule* first_sticky_module = nullptr;
#endif

// All that is known is the name: any module may have its values.
__attribute__((__visibility__("hidden"))) inline void forget(const char* name, std::uint64_t key) {
    leat_unstick(&leat_module_, name, key);
#if !defined(__x86_64__)
    const StickyModule* at = __atomic_load_n(&first_sticky_module, __ATOMIC_ACQUIRE);
    for (; at != nullptr; at = at->next) leat_unstick(at->module, name, key);
#endif
}

template <class Site, class Fields>
struct Event;

// Hidden: each module has its own, and the linker needs no run-time symbol for it.
template <class Site, class... T>
struct __attribute__((__visibility__("hidden"))) Event<Site, Types<T...>> {
    static constexpr std::size_t kFields = sizeof...(T);
    static constexpr FieldNames<kFields, Site::text_size() + kFields> names{Site::text()};
    static_assert(names.is_good, "leat: a field is a variable or LEAT_FIELD(name, expression)");
    static_assert(Site::name_size() <= 256, "leat: an event name has at most 255 characters");
    static_assert(Site::level() >= 0 && Site::level() <= 14, "leat: a log level is 0 to 14");

    struct Fields {
        leat_field all[kFields + 1];
    };
    template <std::size_t... Index>
    static constexpr Fields describe(std::index_sequence<Index...>) {
        return {{Field<T>::describe(names.text + names.begin[Index])..., leat_field{}}};
    }
    static constexpr Fields fields = describe(std::index_sequence_for<T...>{});

    static leat_tracepoint tracepoint;

    __attribute__((__noinline__, __hot__)) static void emit_(Handed<T>... values) {
        announce();
        probe(values...);
        if constexpr (has_one_text<T...>)
            write_split(LEAT_SITE_ADDRESS_, values...);
        else
            write(LEAT_SITE_ADDRESS_, nullptr, values...);
    }
    __attribute__((__noinline__)) static void stick(std::uint64_t key, Handed<T>... values) {
        announce();
        probe(values...);
        write(LEAT_SITE_ADDRESS_, &key, values...);
    }

  private:
    // `sticky`: the key that the value is kept for; null: it is not.
    __attribute__((__always_inline__)) static void write(const void* site, const std::uint64_t* sticky,
                                                         Handed<T>... values) {
        [[maybe_unused]] std::size_t sizes[kFields + 1]{};
        std::size_t size = 0;
        std::size_t hidden = 0;
        [[maybe_unused]] std::size_t index = 0;
        ((sizes[index] = Field<T>::measure(values), add<T>(size, hidden, sizes[index++])), ...);
        leat_stage stage;
        char* payload = leat_stage_begin(&stage, &tracepoint, leat_add_size(size, hidden));
        if (payload == nullptr) {
            if (sticky != nullptr) leat_stick(&tracepoint, *sticky, nullptr, size);
            return;
        }
        leat_packer to{payload, 0, 0};
        index = 0;
        (store_if<!is_hidden<T>>(to, values, sizes[index++]), ...);
        index = 0;
        (store_if<is_hidden<T>>(to, values, sizes[index++]), ...);
        leat_pack_rest(&to);
        if (sticky != nullptr) leat_stick(&tracepoint, *sticky, payload, size);
        leat_stage_end_hidden(&tracepoint, payload, size, hidden, site);
    }

    __attribute__((__always_inline__)) static void write_split(const void* site, Handed<T>... values) {
        leat_stage stage;
        leat_text_payload payload;
        leat_packer to{stage.memory, 0, 0};
        (store_or_split(to, payload, stage, values), ...);
        constexpr SizesAroundText kSizes = sizes_around_text<T...>();
        leat_write_split(&tracepoint, &to, &payload, kSizes.head, kSizes.tail, site);
    }

    template <class F>
    static void store_or_split(leat_packer& to, [[maybe_unused]] leat_text_payload& payload,
                               [[maybe_unused]] leat_stage& stage, const F& value) {
        if constexpr (is_text<F>)
            leat_split_at_text(&to, &payload, &stage, Field<F>::chars(value));
        else
            Field<F>::store(to, value, sizeof value);
    }

    template <class F>
    static void add(std::size_t& size, std::size_t& hidden, std::size_t more) {
        std::size_t& sum = is_hidden<F> ? hidden : size;
        sum = leat_add_size(sum, more);
    }
    // Hidden fields come after all others.
    template <bool IsWanted, class F>
    static void store_if([[maybe_unused]] leat_packer& to, [[maybe_unused]] const F& value,
                         [[maybe_unused]] std::size_t size) {
        if constexpr (IsWanted) Field<F>::store(to, value, size);
    }

#if defined(LEAT_HAS_SDT_)
    static constexpr ProbeNames probe_names{Site::name()};
    template <std::size_t Index>
    static constexpr std::uint64_t probe_word = probe_names.words[Index];

    __attribute__((__always_inline__)) static void probe(Handed<T>... values) {
        if constexpr (probe_names.fit()) probe_first(probe_value(values)..., LEAT_SDT_NONE_12_);
    }
    // Of more than 12 values, the first ones.
    template <class Type1, class Type2, class Type3, class Type4, class Type5, class Type6, class Type7, class Type8,
              class Type9, class Type10, class Type11, class Type12, class... Rest>
    __attribute__((__always_inline__)) static void probe_first(Type1 value1, Type2 value2, Type3 value3, Type4 value4,
                                                               Type5 value5, Type6 value6, Type7 value7, Type8 value8,
                                                               Type9 value9, Type10 value10, Type11 value11,
                                                               Type12 value12, Rest...) {
        LEAT_SDT_PROBE_(
            tracepoint, LEAT_SDT_WORDS_,
            (, [leat_word0] "i"(probe_word<0>), [leat_word1] "i"(probe_word<1>), [leat_word2] "i"(probe_word<2>),
             [leat_word3] "i"(probe_word<3>), [leat_word4] "i"(probe_word<4>), [leat_word5] "i"(probe_word<5>),
             [leat_word6] "i"(probe_word<6>), [leat_word7] "i"(probe_word<7>), [leat_word8] "i"(probe_word<8>),
             [leat_word9] "i"(probe_word<9>), [leat_word10] "i"(probe_word<10>), [leat_word11] "i"(probe_word<11>),
             [leat_word12] "i"(probe_word<12>), [leat_word13] "i"(probe_word<13>), [leat_word14] "i"(probe_word<14>)),
            probe_names.size, value1, value2, value3, value4, value5, value6, value7, value8, value9, value10, value11,
            value12);
    }
#else
    static void probe(const T&...) {}
#endif

#if defined(__x86_64__)
    // Puts a pointer to the tracepoint where <leat/module.h> finds it: an attribute would not do it inside templates
    // and inline functions. '?': it goes with this function if the linker drops that as a duplicate.
    __attribute__((__always_inline__)) static void announce() {
        __asm__ volatile(".pushsection leat_tracepoints,\"" LEAT_SECTION_FLAGS_
                         "?\",@progbits\n\t.balign 8\n\t.quad %c0\n\t.popsection" ::"i"(&tracepoint));
    }
#else
    // Position-independent code of 32 bits has no name for the tracepoint that the assembler would take. So each is a
    // module of its own, which registers among the constructors of its source file.
    struct OwnModule {
        leat_tracepoint* list = &tracepoint;
        leat_module module{LEAT_ABI_VERSION, 0, &list, &list + 1, nullptr, {}};
        StickyModule sticky{&module, nullptr};

        OwnModule() {
            leat_module_load(&module);
            if ((Site::flags() & LEAT_TRACEPOINT_STICKY) == 0) return;
            // Constructors of one program or library run one at a time.
            sticky.next = first_sticky_module;
            __atomic_store_n(&first_sticky_module, &sticky, __ATOMIC_RELEASE);
        }
        ~OwnModule() { leat_module_unload(&module); }
        OwnModule(const OwnModule&) = delete;
        OwnModule& operator=(const OwnModule&) = delete;
    };
    static OwnModule own_module;

    // Nothing is called for it: to be named is what brings the object into the program.
    __attribute__((__always_inline__)) static void announce() { __asm__ volatile("" ::"g"(&own_module)); }
#endif
};

#if !defined(__x86_64__)
template <class Site, class... T>
typename Event<Site, Types<T...>>::OwnModule Event<Site, Types<T...>>::own_module;
#endif

template <class Site, class... T>
leat_tracepoint Event<Site, Types<T...>>::tracepoint{&tracepoint.off,
                                                     0,
                                                     0,
                                                     Site::name(),
                                                     Site::file(),
                                                     Site::uri(),
                                                     fields.all,
                                                     static_cast<std::uint32_t>(kFields),
                                                     Site::level(),
                                                     Site::flags(),
                                                     Site::line(),
                                                     {}};

}  // namespace detail
}  // namespace leat

#endif

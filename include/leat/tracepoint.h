/* Declared tracepoints, for C11 and C++17.
 *
 *     #include <leat/tracepoint.h>
 *
 *     #define IO_QUEUED_FIELDS(FIELD)                                  \
 *         FIELD(integer, uint32_t, id, request->id)                    \
 *         FIELD(integer_hex, uint64_t, address, request->address)      \
 *         FIELD(string, owner, request->owner)                         \
 *         FIELD(sequence, uint8_t, head, request->data, uint16_t, request->length)
 *
 *     LEAT_TRACEPOINT(io, queued, LEAT_INFO, IO_QUEUED_FIELDS, const struct request *request)
 *
 *     leat_tracepoint(io, queued, request);
 *
 * LEAT_TRACEPOINT(provider, name, log level, FIELDS, parameters...) stands at file scope, in a header or a source file;
 * below are LEAT_EVENT_CLASS and LEAT_EVENT_INSTANCE, for events that share their fields.
 * Its events are called "provider:name", at most 255 characters. A tracepoint without parameters says (..., void); one
 * without fields, LEAT_NO_FIELDS.
 *
 * Every file that includes the header has its own copy, and all copies record the same event. If two files describe one
 * name with other fields or another log level, the recorder takes the first and warns of the second, with both places.
 *
 * Fields, in any number. Their names are ASCII letters, digits and underscores. T is an integer type of 1 to 8 bytes, L
 * an unsigned one:
 *
 *     FIELD(integer, T, name, value)              also integer_hex, integer_network, integer_network_hex:
 *                                                 shown in base 16; bytes are big-endian already
 *     FIELD(boolean, name, value)
 *     FIELD(floating, T, name, value)             float or double
 *     FIELD(enumeration, E, T, name, value)       E from LEAT_ENUM
 *     FIELD(string, name, chars)                  NULL is recorded as "(null)"
 *     FIELD(array, T, name, pointer, N)           N is a constant; also array_hex, array_network, array_network_hex
 *     FIELD(sequence, T, name, pointer, L, length)       also sequence_hex, sequence_network, sequence_network_hex
 *     FIELD(text, name, chars, N)                 exactly N bytes; N is a constant
 *     FIELD(text_sequence, name, chars, L, length)
 *     FIELD(hidden, kind, ...)                    any of these: it is not recorded, and takes no room in the ring. The
 *                                                 daemon knows its name and type, for filters to come
 *
 * leat_tracepoint() takes up to 62 arguments; neither provider nor name may be a macro. The arguments are evaluated
 * only if the tracepoint is enabled, and once; so is each field's value. Any thread, also inside signal handlers;
 * nothing allocates, locks or waits. A record holds up to a quarter of its ring, and at most 256 KiB; a larger one is
 * counted as discarded. */
#ifndef LEAT_TRACEPOINT_H
#define LEAT_TRACEPOINT_H

#include <leat/module.h>
#include <leat/sdt.h>
#include <leat/stage.h>

/* Log levels, as LTTng's: 0 is the most severe. */
#define LEAT_EMERG 0
#define LEAT_ALERT 1
#define LEAT_CRIT 2
#define LEAT_ERR 3
#define LEAT_WARNING 4
#define LEAT_NOTICE 5
#define LEAT_INFO 6
#define LEAT_DEBUG_SYSTEM 7
#define LEAT_DEBUG_PROGRAM 8
#define LEAT_DEBUG_PROCESS 9
#define LEAT_DEBUG_MODULE 10
#define LEAT_DEBUG_UNIT 11
#define LEAT_DEBUG_FUNCTION 12
#define LEAT_DEBUG_LINE 13 /* the default of other tracers */
#define LEAT_DEBUG 14

/* The event happened: records it if the tracepoint is enabled; else three loads and one branch. */
#define leat_tracepoint(...) LEAT_TRACE_(LEAT_PICK_(__VA_ARGS__), __VA_ARGS__)
#define LEAT_TRACE_(which, ...) LEAT_TRACE_BY_(which, __VA_ARGS__)
#define LEAT_TRACE_BY_(which, ...) LEAT_TRACE_##which(__VA_ARGS__)
#define LEAT_TRACE_1(provider, name)                                        \
    do {                                                                    \
        if (leat_enabled(provider, name)) leat_emit_##provider##__##name(); \
    } while (0)
#define LEAT_TRACE_2(provider, name, ...)                                              \
    do {                                                                               \
        if (leat_enabled(provider, name)) leat_emit_##provider##__##name(__VA_ARGS__); \
    } while (0)

/* The same without asking whether it is enabled: inside an `if (leat_enabled(...))`. Harmless anywhere else. */
#define leat_do_tracepoint(...) LEAT_DO_(LEAT_PICK_(__VA_ARGS__), __VA_ARGS__)
#define LEAT_DO_(which, ...) LEAT_DO_BY_(which, __VA_ARGS__)
#define LEAT_DO_BY_(which, ...) LEAT_DO_##which(__VA_ARGS__)
#define LEAT_DO_1(provider, name) leat_emit_##provider##__##name()
#define LEAT_DO_2(provider, name, ...) leat_emit_##provider##__##name(__VA_ARGS__)

/* 1: without arguments; 2: with up to 62. An empty ... would be a warning before C++20 and C23. */
#define LEAT_PICK_(...)                                                                                              \
    LEAT_NTH_(__VA_ARGS__, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, \
              2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 0, 0)
#define LEAT_NTH_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, \
                  a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, a42,  \
                  a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, a58, a59, a60, a61, a62,  \
                  a63, a64, nth, ...)                                                                                  \
    nth

/* True if somebody wants the event: for arguments that are costly to work out beforehand. */
#define leat_enabled(provider, name) LEAT_IS_ENABLED_(leat_tracepoint_##provider##__##name)

#define LEAT_NO_FIELDS(FIELD)

/* An enumeration for FIELD(enumeration, ...):
 *
 *     LEAT_ENUM(io_direction, LEAT_VALUE("read", 0), LEAT_VALUE("write", 1), LEAT_RANGE("other", 2, 9))
 *
 * A label may hold any text without control characters. LEAT_AUTO("next") is one more than the value before. An
 * enumeration stands at file scope, without a semicolon. */
#define LEAT_ENUM(name, ...)                                                                     \
    static const struct leat_value leat_values_##name[] = {__VA_ARGS__};                         \
    static const struct leat_enumeration leat_enumeration_##name __attribute__((__unused__)) = { \
        #name, leat_values_##name, (uint32_t)(sizeof(leat_values_##name) / sizeof(leat_values_##name[0]))};
#define LEAT_VALUE(label, value) LEAT_RANGE(label, value, value)
#define LEAT_RANGE(label, low, high) \
    { label, (int64_t)(low), (int64_t)(high), 0 }
#define LEAT_AUTO(label) \
    { label, 0, 0, LEAT_VALUE_AUTO }

/* The compiler takes this branch for one that is never taken: what it guards goes out of line, among the cold code. */
#define LEAT_IS_ENABLED_(tracepoint) __builtin_expect_with_probability(LEAT_IS_WANTED_(tracepoint), 0, 1.0)

/* Where an emitting function, which is never inlined, was called from. */
#define LEAT_SITE_ADDRESS_ __builtin_return_address(0)

/* What LEAT_TRACEPOINT and its like are put together from. `id` is provider__event, or provider__class.
 *
 * Static, so that a site, its description and the code that packs its fields always come from one file. Weak symbols
 * are merged by name: a file with other fields under the same name would write records that do not fit the description.
 */
#define LEAT_FIELD_TABLE_(id, FIELDS)                 \
    static const struct leat_field leat_fields_##id[] \
        __attribute__((__unused__)) = {FIELDS(LEAT_DESCRIBE_){NULL, NULL, 0, 0, 0, 0, 0, 0, 0}};

#define LEAT_DEFINE_(storage, id, full_name, level, uri, flags, fields_id)                                    \
    storage struct leat_tracepoint leat_tracepoint_##id = {                                                   \
        &leat_tracepoint_##id.off,                                                                            \
        0,                                                                                                    \
        0,                                                                                                    \
        full_name,                                                                                            \
        __FILE__,                                                                                             \
        uri,                                                                                                  \
        leat_fields_##fields_id,                                                                              \
        (uint32_t)(sizeof(leat_fields_##fields_id) / sizeof(struct leat_field)) - 1,                          \
        level,                                                                                                \
        flags,                                                                                                \
        __LINE__,                                                                                             \
        {NULL, NULL}};                                                                                        \
    static struct leat_tracepoint* leat_entry_##id __attribute__((LEAT_IN_SECTION_)) = &leat_tracepoint_##id; \
    LEAT_STATIC_ASSERT_(sizeof(full_name) <= 256, "provider:name is longer than 255 characters");             \
    LEAT_STATIC_ASSERT_((level) >= 0 && (level) <= 14, "a log level is 0 to 14");

/* An event of one text and a few numbers: the text is not staged, and nobody measures it beforehand. */
#define LEAT_HAS_ONE_TEXT_(FIELDS) \
    ((((0u FIELDS(LEAT_WEIGH_)) >> 16) == 1u) && (((0u FIELDS(LEAT_WEIGH_)) & 0xffffu) <= 25u))
#define LEAT_WEIGH_(kind, ...) +LEAT_WEIGHT_##kind
#define LEAT_WEIGHT_integer 1u
#define LEAT_WEIGHT_integer_hex 1u
#define LEAT_WEIGHT_integer_network 1u
#define LEAT_WEIGHT_integer_network_hex 1u
#define LEAT_WEIGHT_boolean 1u
#define LEAT_WEIGHT_floating 1u
#define LEAT_WEIGHT_enumeration 1u
#define LEAT_WEIGHT_string 0x10000u
#define LEAT_WEIGHT_array 0x20000u /* may be large */
#define LEAT_WEIGHT_array_hex LEAT_WEIGHT_array
#define LEAT_WEIGHT_array_network LEAT_WEIGHT_array
#define LEAT_WEIGHT_array_network_hex LEAT_WEIGHT_array
#define LEAT_WEIGHT_sequence LEAT_WEIGHT_array
#define LEAT_WEIGHT_sequence_hex LEAT_WEIGHT_array
#define LEAT_WEIGHT_sequence_network LEAT_WEIGHT_array
#define LEAT_WEIGHT_sequence_network_hex LEAT_WEIGHT_array
#define LEAT_WEIGHT_text LEAT_WEIGHT_array
#define LEAT_WEIGHT_text_sequence LEAT_WEIGHT_array
#define LEAT_WEIGHT_hidden LEAT_WEIGHT_array

/* `if_none`: what to do if there is no room. `has_one_text`: then the payload is split at it. `probe`: see
 * <leat/sdt.h>; it uses the fields' values. */
#define LEAT_STAGE_(tracepoint, FIELDS, has_one_text, probe, if_none)                                          \
    size_t leat_size_ = 0;                                                                                     \
    size_t leat_hidden_ = 0;                                                                                   \
    size_t leat_head_ __attribute__((__unused__)) = 0;                                                         \
    const int leat_is_split_ __attribute__((__unused__)) = (has_one_text);                                     \
    FIELDS(LEAT_MEASURE_)                                                                                      \
    probe struct leat_stage leat_stage_;                                                                       \
    struct leat_text_payload leat_split_ __attribute__((__unused__));                                          \
    char* leat_payload_ = leat_stage_begin(&leat_stage_, tracepoint, leat_add_size(leat_size_, leat_hidden_)); \
    if (leat_payload_ == NULL) {                                                                               \
        if_none;                                                                                               \
        return;                                                                                                \
    }                                                                                                          \
    struct leat_packer leat_to_ = {leat_payload_, 0, 0};                                                       \
    FIELDS(LEAT_STORE_)                                                                                        \
    FIELDS(LEAT_STORE_LATER_)                                                                                  \
    leat_pack_rest(&leat_to_);
#define LEAT_WRITE_(tracepoint) \
    leat_stage_end_hidden(tracepoint, leat_payload_, leat_size_, leat_hidden_, LEAT_SITE_ADDRESS_);
#define LEAT_EMIT_(tracepoint, FIELDS, probe)                                                          \
    LEAT_STAGE_(tracepoint, FIELDS, LEAT_HAS_ONE_TEXT_(FIELDS), probe, (void)0)                        \
    if (leat_is_split_) {                                                                              \
        leat_write_split(tracepoint, &leat_to_, &leat_split_, leat_head_, leat_size_ - leat_head_ - 1, \
                         LEAT_SITE_ADDRESS_);                                                          \
        return;                                                                                        \
    }                                                                                                  \
    LEAT_WRITE_(tracepoint)

#define LEAT_TRACEPOINT(provider, event, level, FIELDS, ...) \
    LEAT_TRACEPOINT_URI(provider, event, level, NULL, FIELDS, __VA_ARGS__)

/* The same for an event of a model (CTF: model.emf.uri), which tools may look up. */
#define LEAT_TRACEPOINT_URI(provider, event, level, uri, FIELDS, ...) \
    LEAT_TRACEPOINT_AS_(provider##__##event, #provider, #event, level, uri, FIELDS, __VA_ARGS__)
/* `provider` and `event` are literals here: whatever macros the program has, they are not expanded. */
#define LEAT_TRACEPOINT_AS_(id, provider, event, level, uri, FIELDS, ...)                       \
    LEAT_FIELD_TABLE_(id, FIELDS)                                                               \
    LEAT_DEFINE_(static, id, provider ":" event, level, uri, 0, id)                             \
    static __attribute__((__noinline__, __hot__, __unused__)) void leat_emit_##id(__VA_ARGS__){ \
        LEAT_EMIT_(&leat_tracepoint_##id, FIELDS,                                               \
                   LEAT_SDT_NAMED_(id, provider, event, FIELDS(LEAT_SDT_FIELD_)))} LEAT_REQUIRE_SEMICOLON_

/* Events that have their fields in common, and the code that packs them:
 *
 *     LEAT_EVENT_CLASS(io, request, REQUEST_FIELDS, uint32_t id, const char *owner);
 *     LEAT_EVENT_INSTANCE(io, request, queued, LEAT_INFO, (uint32_t id, const char *owner), (id, owner));
 *     LEAT_EVENT_INSTANCE(io, request, retried, LEAT_WARNING, (uint32_t id, const char *owner), (id, owner));
 *
 *     leat_tracepoint(io, retried, 7, "compaction");
 *
 * A class has at least one parameter. The last argument of LEAT_EVENT_INSTANCE says what the class gets. It is
 * evaluated twice where the instance has a probe (<leat/sdt.h>), so nothing in it may have an effect, such as
 * `next_id++`. */
#define LEAT_EVENT_CLASS(provider, class_, FIELDS, ...)                                                    \
    LEAT_FIELD_TABLE_(provider##__##class_, FIELDS)                                                        \
    static __attribute__((__noinline__, __hot__, __unused__)) void leat_emit_class_##provider##__##class_( \
        const struct leat_tracepoint* leat_tracepoint_,                                                    \
        __VA_ARGS__){LEAT_EMIT_(leat_tracepoint_, FIELDS, )} LEAT_REQUIRE_SEMICOLON_

#define LEAT_EVENT_INSTANCE(provider, class_, event, level, parameters, arguments) \
    LEAT_EVENT_INSTANCE_URI(provider, class_, event, level, NULL, parameters, arguments)
#define LEAT_EVENT_INSTANCE_URI(provider, class_, event, level, uri, parameters, arguments)                   \
    LEAT_EVENT_INSTANCE_AS_(static, provider##__##event, #provider, #event, provider##__##class_, level, uri, \
                            parameters, arguments)
#define LEAT_EVENT_INSTANCE_AS_(storage, id, provider, event, class_id, level, uri, parameters, arguments) \
    LEAT_DEFINE_(storage, id, provider ":" event, level, uri, 0, class_id)                                 \
    static inline __attribute__((__always_inline__)) void leat_emit_##id parameters {                      \
        LEAT_SDT_NAMED_(id, provider, event, LEAT_UNWRAP_ arguments, )                                     \
        leat_emit_class_##class_id(&leat_tracepoint_##id, LEAT_UNWRAP_ arguments);                         \
    }                                                                                                      \
    LEAT_REQUIRE_SEMICOLON_
#define LEAT_UNWRAP_(...) __VA_ARGS__

#ifdef __cplusplus
#define LEAT_STATIC_ASSERT_ static_assert
#define LEAT_REQUIRE_SEMICOLON_ static_assert(true, "")
#else
#define LEAT_STATIC_ASSERT_ _Static_assert
#define LEAT_REQUIRE_SEMICOLON_ _Static_assert(1, "")
#endif

/* Each field expands three times: to its description, its size and its bytes. */
#define LEAT_DESCRIBE_(kind, ...) {LEAT_DESCRIBE_##kind(__VA_ARGS__) 0},
#define LEAT_MEASURE_(kind, ...) LEAT_MEASURE_##kind(__VA_ARGS__)
#define LEAT_STORE_(kind, ...) LEAT_STORE_##kind(__VA_ARGS__)

/* Hidden fields expand to the same, measured into a sum of their own. They are stored after all others. */
#define LEAT_DESCRIBE_hidden(kind, ...) LEAT_DESCRIBE_##kind(__VA_ARGS__) 1 |
#define LEAT_MEASURE_hidden(kind, ...)           \
    leat_swap_sizes(&leat_size_, &leat_hidden_); \
    LEAT_MEASURE_##kind(__VA_ARGS__) leat_swap_sizes(&leat_size_, &leat_hidden_);
#define LEAT_STORE_hidden(kind, ...)
#define LEAT_STORE_LATER_(kind, ...) LEAT_SECOND_(LEAT_IF_LATER_##kind, LEAT_STORE_NOTHING_, )(__VA_ARGS__)
#define LEAT_IF_LATER_hidden , LEAT_STORE_
#define LEAT_STORE_NOTHING_(...)
#define LEAT_SECOND_(...) LEAT_SECOND_OF_(__VA_ARGS__)
#define LEAT_SECOND_OF_(first, second, ...) second

#define LEAT_SIGN_(T) ((T)-1 < (T)1 ? LEAT_FIELD_SIGNED : 0)
#define LEAT_SCALAR_(name, element, T, flags) \
    #name, NULL, 0, LEAT_SHAPE_SCALAR, element, (uint8_t)sizeof(T), (uint8_t)(flags), 0,

#define LEAT_DESCRIBE_integer_(T, name, flags) LEAT_SCALAR_(name, LEAT_ELEMENT_INTEGER, T, LEAT_SIGN_(T) | (flags))
#define LEAT_DESCRIBE_integer(T, name, value) LEAT_DESCRIBE_integer_(T, name, 0)
#define LEAT_DESCRIBE_integer_hex(T, name, value) LEAT_DESCRIBE_integer_(T, name, LEAT_FIELD_HEX)
#define LEAT_DESCRIBE_integer_network(T, name, value) LEAT_DESCRIBE_integer_(T, name, LEAT_FIELD_NETWORK)
#define LEAT_DESCRIBE_integer_network_hex(T, name, value) \
    LEAT_DESCRIBE_integer_(T, name, LEAT_FIELD_NETWORK | LEAT_FIELD_HEX)
#define LEAT_DESCRIBE_boolean(name, value) LEAT_SCALAR_(name, LEAT_ELEMENT_INTEGER, uint8_t, 0)
#define LEAT_DESCRIBE_floating(T, name, value) LEAT_SCALAR_(name, LEAT_ELEMENT_FLOAT, T, 0)
#define LEAT_DESCRIBE_enumeration(E, T, name, value) \
    #name, &leat_enumeration_##E, 0, LEAT_SHAPE_SCALAR, LEAT_ELEMENT_ENUM, (uint8_t)sizeof(T), LEAT_SIGN_(T), 0,
#define LEAT_DESCRIBE_string(name, chars) #name, NULL, 0, LEAT_SHAPE_STRING, LEAT_ELEMENT_INTEGER, 1, 0, 0,
#define LEAT_DESCRIBE_array_(T, name, N, flags)                                             \
                                                                                            \
    #name, NULL, (uint32_t)(N), LEAT_SHAPE_ARRAY, LEAT_ELEMENT_INTEGER, (uint8_t)sizeof(T), \
        (uint8_t)(LEAT_SIGN_(T) | (flags)), 0,
#define LEAT_DESCRIBE_array(T, name, pointer, N) LEAT_DESCRIBE_array_(T, name, N, 0)
#define LEAT_DESCRIBE_array_hex(T, name, pointer, N) LEAT_DESCRIBE_array_(T, name, N, LEAT_FIELD_HEX)
#define LEAT_DESCRIBE_array_network(T, name, pointer, N) LEAT_DESCRIBE_array_(T, name, N, LEAT_FIELD_NETWORK)
#define LEAT_DESCRIBE_array_network_hex(T, name, pointer, N) \
    LEAT_DESCRIBE_array_(T, name, N, LEAT_FIELD_NETWORK | LEAT_FIELD_HEX)
#define LEAT_DESCRIBE_sequence_(T, name, L, flags)                                                                     \
                                                                                                                       \
    #name, NULL, 0, LEAT_SHAPE_SEQUENCE, LEAT_ELEMENT_INTEGER, (uint8_t)sizeof(T), (uint8_t)(LEAT_SIGN_(T) | (flags)), \
        (uint8_t)sizeof(L),
#define LEAT_DESCRIBE_sequence(T, name, pointer, L, length) LEAT_DESCRIBE_sequence_(T, name, L, 0)
#define LEAT_DESCRIBE_sequence_hex(T, name, pointer, L, length) LEAT_DESCRIBE_sequence_(T, name, L, LEAT_FIELD_HEX)
#define LEAT_DESCRIBE_sequence_network(T, name, pointer, L, length) \
    LEAT_DESCRIBE_sequence_(T, name, L, LEAT_FIELD_NETWORK)
#define LEAT_DESCRIBE_sequence_network_hex(T, name, pointer, L, length) \
    LEAT_DESCRIBE_sequence_(T, name, L, LEAT_FIELD_NETWORK | LEAT_FIELD_HEX)
#define LEAT_DESCRIBE_text(name, chars, N) \
    #name, NULL, (uint32_t)(N), LEAT_SHAPE_TEXT_ARRAY, LEAT_ELEMENT_INTEGER, 1, 0, 0,
#define LEAT_DESCRIBE_text_sequence(name, chars, L, length) \
    #name, NULL, 0, LEAT_SHAPE_TEXT_SEQUENCE, LEAT_ELEMENT_INTEGER, 1, 0, (uint8_t)sizeof(L),

/* A field's value is evaluated here, once, and kept until it is stored. */
#define LEAT_MEASURE_value_(T, name, value)                                         \
    LEAT_STATIC_ASSERT_(sizeof(T) <= 8, #name " is a number of more than 8 bytes"); \
    const T leat_value_##name = (T)(value);                                         \
    leat_size_ = leat_add_size(leat_size_, sizeof(T));
#define LEAT_MEASURE_integer(T, name, value) LEAT_MEASURE_value_(T, name, value)
#define LEAT_MEASURE_integer_hex LEAT_MEASURE_integer
#define LEAT_MEASURE_integer_network LEAT_MEASURE_integer
#define LEAT_MEASURE_integer_network_hex LEAT_MEASURE_integer
#define LEAT_MEASURE_boolean(name, value) LEAT_MEASURE_value_(uint8_t, name, (value) ? 1 : 0)
#define LEAT_MEASURE_floating(T, name, value) LEAT_MEASURE_value_(T, name, value)
#define LEAT_MEASURE_enumeration(E, T, name, value) LEAT_MEASURE_value_(T, name, value)
#define LEAT_MEASURE_string(name, chars)                                              \
    const char* const leat_value_##name = leat_no_null(chars);                        \
    const size_t leat_length_##name = leat_is_split_ ? 0 : strlen(leat_value_##name); \
    leat_head_ = leat_size_;                                                          \
    leat_size_ = leat_add_size(leat_size_, leat_length_##name + 1);
#define LEAT_MEASURE_array(T, name, pointer, N)      \
    const void* const leat_value_##name = (pointer); \
    leat_size_ = leat_add_sequence(leat_size_, 0, (size_t)(N), sizeof(T));
#define LEAT_MEASURE_array_hex LEAT_MEASURE_array
#define LEAT_MEASURE_array_network LEAT_MEASURE_array
#define LEAT_MEASURE_array_network_hex LEAT_MEASURE_array
#define LEAT_MEASURE_sequence(T, name, pointer, L, length)                       \
    const void* const leat_value_##name = (pointer);                             \
    const L leat_length_##name = leat_value_##name == NULL ? (L)0 : (L)(length); \
    leat_size_ = leat_add_sequence(leat_size_, sizeof(L), leat_length_##name, sizeof(T));
#define LEAT_MEASURE_sequence_hex LEAT_MEASURE_sequence
#define LEAT_MEASURE_sequence_network LEAT_MEASURE_sequence
#define LEAT_MEASURE_sequence_network_hex LEAT_MEASURE_sequence
#define LEAT_MEASURE_text(name, chars, N) LEAT_MEASURE_array(char, name, chars, N)
#define LEAT_MEASURE_text_sequence(name, chars, L, length) LEAT_MEASURE_sequence(char, name, chars, L, length)

/* What the probe has of a field. */
#define LEAT_SDT_FIELD_(kind, ...) LEAT_SDT_FIELD_##kind(__VA_ARGS__)
#define LEAT_SDT_FIELD_hidden(kind, ...) LEAT_SDT_FIELD_##kind(__VA_ARGS__)
#define LEAT_SDT_FIELD_integer(T, name, ...) leat_value_##name,
#define LEAT_SDT_FIELD_integer_hex LEAT_SDT_FIELD_integer
#define LEAT_SDT_FIELD_integer_network LEAT_SDT_FIELD_integer
#define LEAT_SDT_FIELD_integer_network_hex LEAT_SDT_FIELD_integer
#define LEAT_SDT_FIELD_boolean(name, value) leat_value_##name,
#define LEAT_SDT_FIELD_floating(T, name, value) leat_sdt_bits(&leat_value_##name, sizeof leat_value_##name),
#define LEAT_SDT_FIELD_enumeration(E, T, name, value) leat_value_##name,
#define LEAT_SDT_FIELD_string(name, chars) leat_value_##name,
#define LEAT_SDT_FIELD_array LEAT_SDT_FIELD_integer
#define LEAT_SDT_FIELD_array_hex LEAT_SDT_FIELD_integer
#define LEAT_SDT_FIELD_array_network LEAT_SDT_FIELD_integer
#define LEAT_SDT_FIELD_array_network_hex LEAT_SDT_FIELD_integer
#define LEAT_SDT_FIELD_sequence LEAT_SDT_FIELD_integer
#define LEAT_SDT_FIELD_sequence_hex LEAT_SDT_FIELD_integer
#define LEAT_SDT_FIELD_sequence_network LEAT_SDT_FIELD_integer
#define LEAT_SDT_FIELD_sequence_network_hex LEAT_SDT_FIELD_integer
#define LEAT_SDT_FIELD_text(name, ...) leat_value_##name,
#define LEAT_SDT_FIELD_text_sequence LEAT_SDT_FIELD_text

#define LEAT_STORE_value_(name) leat_store_scalar(&leat_to_, &leat_value_##name, sizeof leat_value_##name);
#define LEAT_STORE_integer(T, name, value) LEAT_STORE_value_(name)
#define LEAT_STORE_integer_hex LEAT_STORE_integer
#define LEAT_STORE_integer_network LEAT_STORE_integer
#define LEAT_STORE_integer_network_hex LEAT_STORE_integer
#define LEAT_STORE_boolean(name, value) LEAT_STORE_value_(name)
#define LEAT_STORE_floating(T, name, value) LEAT_STORE_value_(name)
#define LEAT_STORE_enumeration(E, T, name, value) LEAT_STORE_value_(name)
#define LEAT_STORE_string(name, chars)                                                \
    if (leat_is_split_)                                                               \
        leat_split_at_text(&leat_to_, &leat_split_, &leat_stage_, leat_value_##name); \
    else                                                                              \
        leat_store_string(&leat_to_, leat_value_##name, leat_length_##name);
#define LEAT_STORE_array(T, name, pointer, N) leat_store_bytes(&leat_to_, leat_value_##name, sizeof(T) * (N));
#define LEAT_STORE_array_hex LEAT_STORE_array
#define LEAT_STORE_array_network LEAT_STORE_array
#define LEAT_STORE_array_network_hex LEAT_STORE_array
#define LEAT_STORE_sequence(T, name, pointer, L, length)                          \
    leat_store_scalar(&leat_to_, &leat_length_##name, sizeof leat_length_##name); \
    leat_store_bytes(&leat_to_, leat_value_##name, sizeof(T) * (size_t)leat_length_##name);
#define LEAT_STORE_sequence_hex LEAT_STORE_sequence
#define LEAT_STORE_sequence_network LEAT_STORE_sequence
#define LEAT_STORE_sequence_network_hex LEAT_STORE_sequence
#define LEAT_STORE_text(name, chars, N) LEAT_STORE_array(char, name, chars, N)
#define LEAT_STORE_text_sequence(name, chars, L, length) LEAT_STORE_sequence(char, name, chars, L, length)

#endif

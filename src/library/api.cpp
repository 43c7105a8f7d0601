// <leat/ctf.h>
#include <leat/ctf.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctf/decode/field_value.hpp"
#include "library/trace_reader.hpp"
#include "viewer/filter/value_path.hpp"
#include "viewer/sink/columns.hpp"
#include "viewer/sink/found_labels.hpp"

using namespace leat;
using ctf::FieldValue;
using library::TraceReader;
using viewer::Column;
using viewer::ColumnReader;

struct leat_ctf_reader {
    TraceReader reader;
    std::string call_error{};     // of the last call, if it was not about reading
    std::string reading_error{};  // why nothing more can be read
    bool is_broken = false;
    const std::string* error = nullptr;  // one of them, or none
};

struct leat_ctf_columns {
    std::uint64_t rows = 0;
    std::vector<Column> columns{};
    std::vector<leat_ctf_column> forms{};               // of the columns, as the program sees them
    std::vector<std::vector<leat_ctf_string>> texts{};  // likewise
};

namespace {

const FieldValue* inside(const leat_ctf_value* value) {
    return reinterpret_cast<const FieldValue*>(value);  // NOLINT(*-reinterpret-cast)
}
const leat_ctf_value* outside(const FieldValue* value) {
    return reinterpret_cast<const leat_ctf_value*>(value);  // NOLINT(*-reinterpret-cast)
}

// What a variant holds, in place of the variant. Null: nothing.
const FieldValue* held(const leat_ctf_value* value) {
    return value == nullptr ? nullptr : viewer::find_part(inside(value), {});
}

template <class Class>
const Class* class_of(const FieldValue* value) {
    return value == nullptr || value->field_class == nullptr ? nullptr : value->field_class->as<Class>();
}

// Of integers and enums.
const ctf::IntegerClass* integer_class(const FieldValue* value) {
    if (value == nullptr || value->is_text || value->field_class == nullptr) return nullptr;
    return ctf::integer_of(*value->field_class);
}

// A program that was compiled with an older header has a shorter struct; with a newer one, perhaps options that we do
// not know, if they are not 0.
Result<leat_ctf_options> complete(const leat_ctf_options* options) {
    constexpr std::size_t kShortest = offsetof(leat_ctf_options, end_ns) + sizeof(std::int64_t);
    leat_ctf_options all = LEAT_CTF_OPTIONS;
    if (options == nullptr) return all;
    constexpr std::size_t kLongest = 4096;  // of any version to come; else, it is no size
    if (options->size < kShortest || options->size > kLongest)
        return refused("the options' size is {}: begin with LEAT_CTF_OPTIONS", options->size);
    const auto* const bytes = reinterpret_cast<const std::byte*>(options);  // NOLINT(*-reinterpret-cast)
    for (std::size_t at = sizeof all; at < options->size; ++at)
        if (bytes[at] != std::byte{})
            return refused("there are options that this version of libleat-ctf does not know");
    std::memcpy(&all, options, std::min(options->size, sizeof all));
    return all;
}

Result<std::unique_ptr<leat_ctf_reader>> open(std::span<const char* const> names, const leat_ctf_options* given) {
    const leat_ctf_options options = LEAT_TRY(complete(given));
    if (names.empty() || names.data() == nullptr || std::ranges::find(names, nullptr) != names.end())
        return refused("no path of a trace was given");
    const std::vector<std::filesystem::path> paths(names.begin(), names.end());
    TraceReader::Wanted wanted{.begin_ns = options.begin_ns, .end_ns = options.end_ns};
    if (options.filter != nullptr) wanted.expression = LEAT_TRY(viewer::parse_filter(options.filter));
    auto reader = LEAT_TRY(TraceReader::open(paths, std::move(wanted)));
    return std::unique_ptr<leat_ctf_reader>(new leat_ctf_reader{std::move(reader)});
}

void tell(char* error, std::string_view text) {
    if (error == nullptr) return;
    std::size_t size = std::min<std::size_t>(text.size(), LEAT_CTF_ERROR_SIZE - 1);
    // Not within a character of UTF-8.
    const auto is_inside = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
    while (size != 0 && size < text.size() && is_inside(size)) --size;
    std::memcpy(error, text.data(), size);
    error[size] = '\0';
}

// Calls `work()`, which returns a Result, and keeps its error in `place`. None: there was one. Where there is no
// memory, it takes none: the text is short.
template <class Work>
auto attempt(leat_ctf_reader& reader, std::string& place, Work work)
    -> std::optional<typename decltype(work())::value_type> {
    reader.error = nullptr;
    try {
        auto result = work();
        if (result) return *std::move(result);
        place = std::move(result).error().message;
    } catch (const std::bad_alloc&) {
        place = "out of memory";
    } catch (const std::exception&) {
        place = "internal error";
    }
    reader.error = &place;
    return std::nullopt;
}

// The same of what reads on. After an error, nothing does.
template <class Work>
auto attempt_to_read(leat_ctf_reader& reader, Work work) -> std::optional<typename decltype(work())::value_type> {
    if (reader.is_broken) {
        reader.error = &reader.reading_error;
        return std::nullopt;
    }
    auto result = attempt(reader, reader.reading_error, std::move(work));
    reader.is_broken = !result;
    return result;
}

// False: there is none, or it cannot be read.
bool next(leat_ctf_reader& reader) {
    return attempt_to_read(reader, [&] { return reader.reader.next(); }).value_or(false);
}

// Null: there is none.
const ctf::EventRecord* record_of(leat_ctf_reader* reader) {
    if (reader == nullptr || reader->is_broken || !reader->reader.has_event()) return nullptr;
    return attempt_to_read(*reader, [&] { return reader->reader.record(); }).value_or(nullptr);
}

const ctf::EventClass* event_class_of(const leat_ctf_reader* reader) {
    if (reader == nullptr || !reader->reader.has_event()) return nullptr;
    return reader->reader.packet().plan->events[reader->reader.place().event].event_class;
}

const ctf::TraceClass* trace_class_of(const leat_ctf_reader* reader) {
    return reader == nullptr || !reader->reader.has_event() ? nullptr : reader->reader.packet().trace_class;
}

template <class T>
int give(const std::optional<T>& value, T* place) {
    if (value && place != nullptr) *place = *value;
    return value ? 1 : 0;
}

const FieldValue* member_of(const FieldValue* value, const char* name) {
    if (value == nullptr || value->is_text || name == nullptr) return nullptr;
    if (value->field_class != nullptr && class_of<ctf::StructClass>(value) == nullptr) return nullptr;
    const FieldValue* part = value + 1;
    for (std::uint32_t i = 0; i < value->size; ++i, part = viewer::next_sibling(part))
        if (part->name == name) return part;
    return nullptr;
}

// How the program sees the columns.
void make_forms(leat_ctf_columns& result) {
    result.texts.resize(result.columns.size());
    for (std::size_t i = 0; i < result.columns.size(); ++i) {
        const Column& column = result.columns[i];
        for (const std::string_view text : column.texts().texts())
            result.texts[i].push_back({text.data(), text.size()});
        const bool is_any_missing = !column.is_missing().empty();
        result.forms.push_back({.name = column.name().c_str(),
                                .type = static_cast<leat_ctf_column_type>(column.type()),
                                .data = column.values().data(),
                                .is_missing = is_any_missing ? column.is_missing().data() : nullptr,
                                .texts = result.texts[i].data(),
                                .text_count = result.texts[i].size()});
    }
}

// Fewer rows than were asked for: the traces have ended, or the reader is broken.
std::unique_ptr<leat_ctf_columns> read_rows(leat_ctf_reader& reader, ColumnReader& columns, std::uint64_t max_rows) {
    std::uint64_t rows = 0;
    const auto append = [&]() -> Result<bool> {
        LEAT_TRY(columns.append(reader.reader.packet(), reader.reader.place()));
        return true;
    };
    while (rows < max_rows && next(reader) && attempt_to_read(reader, append)) ++rows;
    if (rows == 0 && max_rows != 0 && reader.is_broken) return nullptr;
    const bool is_broken = reader.is_broken;
    // Without memory for them, the rows are lost, and nobody reads on behind them as if they had not been.
    auto result = attempt(reader, reader.reading_error, [&]() -> Result<std::unique_ptr<leat_ctf_columns>> {
        auto made = std::make_unique<leat_ctf_columns>();
        made->rows = rows;
        made->columns = columns.take(rows);
        make_forms(*made);
        return made;
    });
    reader.is_broken = is_broken || !result;
    if (reader.is_broken) reader.error = &reader.reading_error;
    return std::move(result).value_or(nullptr);
}

}  // namespace

leat_ctf_reader* leat_ctf_open(const char* const* paths, size_t path_count, const leat_ctf_options* options,
                               char* error) {
    tell(error, "");
    try {
        auto opened = open({paths, path_count}, options);
        if (opened) return opened->release();
        tell(error, opened.error().message);
    } catch (const std::bad_alloc&) {
        tell(error, "out of memory");
    } catch (const std::exception& trouble) {
        tell(error, trouble.what());
    }
    return nullptr;
}

void leat_ctf_close(leat_ctf_reader* reader) { delete reader; }

int leat_ctf_next(leat_ctf_reader* reader) {
    if (reader == nullptr) return 0;
    if (next(*reader)) return 1;
    return reader->is_broken ? -1 : 0;
}

int leat_ctf_seek(leat_ctf_reader* reader, int64_t time_ns) {
    if (reader == nullptr) return -1;
    const auto done = attempt(*reader, reader->call_error, [&]() -> Result<bool> {
        LEAT_TRY(reader->reader.seek(time_ns));
        return true;
    });
    if (!done) return -1;
    reader->is_broken = false;
    return 0;
}

void leat_ctf_set_interrupt(leat_ctf_reader* reader, int (*is_wanted)(void* data), void* data) {
    if (reader == nullptr) return;
    if (is_wanted == nullptr) return reader->reader.check({});
    reader->reader.check([is_wanted, data] { return is_wanted(data) != 0 ? refused("interrupted") : Result<void>(); });
}

const char* leat_ctf_error(const leat_ctf_reader* reader) {
    return reader != nullptr && reader->error != nullptr ? reader->error->c_str() : nullptr;
}

void leat_ctf_get_losses(const leat_ctf_reader* reader, leat_ctf_losses* losses) {
    const viewer::Losses found = reader == nullptr ? viewer::Losses() : reader->reader.losses();
    if (losses != nullptr) *losses = {found.events, found.packets, found.unknown};
}

// The event.

const char* leat_ctf_event_name(const leat_ctf_reader* reader) {
    const ctf::EventClass* const event_class = event_class_of(reader);
    return event_class == nullptr ? nullptr : event_class->name.c_str();
}

uint64_t leat_ctf_event_id(const leat_ctf_reader* reader) {
    const ctf::EventClass* const event_class = event_class_of(reader);
    return event_class == nullptr ? 0 : event_class->id;
}

int leat_ctf_event_time(const leat_ctf_reader* reader, int64_t* time_ns) {
    if (event_class_of(reader) == nullptr || reader->reader.packet().plan->clock == nullptr) return 0;
    return give(std::optional(reader->reader.place().time_ns), time_ns);
}

int leat_ctf_event_cycles(const leat_ctf_reader* reader, uint64_t* cycles) {
    if (event_class_of(reader) == nullptr || reader->reader.packet().plan->clock == nullptr) return 0;
    return give(std::optional(reader->reader.place().cycles), cycles);
}

int leat_ctf_event_log_level(const leat_ctf_reader* reader, int64_t* level) {
    const ctf::EventClass* const event_class = event_class_of(reader);
    return event_class == nullptr ? 0 : give(event_class->log_level, level);
}

const char* leat_ctf_event_stream(const leat_ctf_reader* reader) {
    return event_class_of(reader) == nullptr ? nullptr : reader->reader.packet().stream->name.c_str();
}

int leat_ctf_event_stream_id(const leat_ctf_reader* reader, uint64_t* id) {
    return event_class_of(reader) == nullptr ? 0 : give(reader->reader.packet().stream->instance_id, id);
}

const char* leat_ctf_environment_text(const leat_ctf_reader* reader, const char* name) {
    const ctf::TraceClass* const trace_class = name == nullptr ? nullptr : trace_class_of(reader);
    const std::string* const text = trace_class == nullptr ? nullptr : ctf::environment_text(*trace_class, name);
    return text == nullptr ? nullptr : text->c_str();
}

int leat_ctf_environment_number(const leat_ctf_reader* reader, const char* name, int64_t* number) {
    const ctf::TraceClass* const trace_class = name == nullptr ? nullptr : trace_class_of(reader);
    const auto* const found = trace_class == nullptr ? nullptr : ctf::environment_number(*trace_class, name);
    return found == nullptr ? 0 : give(std::optional(*found), number);
}

// Its fields.

const leat_ctf_value* leat_ctf_get_scope(leat_ctf_reader* reader, enum leat_ctf_scope scope) {
    const ctf::EventRecord* const record = record_of(reader);
    if (record == nullptr) return nullptr;
    std::span<const FieldValue> values;
    if (scope == LEAT_CTF_PACKET_CONTEXT) values = record->packet_context;
    if (scope == LEAT_CTF_EVENT_CONTEXT) values = record->event_context;
    if (scope == LEAT_CTF_OWN_CONTEXT) values = record->context;
    if (scope == LEAT_CTF_FIELDS) values = record->fields;
    return values.empty() ? nullptr : outside(values.data());
}

const leat_ctf_value* leat_ctf_find(leat_ctf_reader* reader, const char* name) {
    const ctf::EventRecord* const record = record_of(reader);
    if (record == nullptr) return nullptr;
    for (const auto scope : {record->fields, record->packet_context, record->event_context, record->context})
        if (const FieldValue* const found = scope.empty() ? nullptr : member_of(scope.data(), name))
            return outside(found);
    return nullptr;
}

enum leat_ctf_kind leat_ctf_get_kind(const leat_ctf_value* value) {
    const FieldValue* const found = held(value);
    if (found == nullptr) return LEAT_CTF_NONE;
    if (found->is_text) return LEAT_CTF_TEXT;
    if (const auto* const integer = integer_class(found))
        return integer->is_signed ? LEAT_CTF_SIGNED : LEAT_CTF_UNSIGNED;
    if (class_of<ctf::FloatClass>(found) != nullptr) return LEAT_CTF_REAL;
    const bool is_array = class_of<ctf::ArrayClass>(found) != nullptr || class_of<ctf::SequenceClass>(found) != nullptr;
    return is_array ? LEAT_CTF_ARRAY : LEAT_CTF_STRUCT;
}

// Names are ends of std::strings, so there is a NUL behind them.
const char* leat_ctf_name(const leat_ctf_value* value) {
    return value == nullptr || inside(value)->name.empty() ? "" : inside(value)->name.data();
}

int64_t leat_ctf_integer(const leat_ctf_value* value) {
    const FieldValue* const found = held(value);
    return integer_class(found) == nullptr ? 0 : static_cast<int64_t>(found->number);
}

double leat_ctf_real(const leat_ctf_value* value) {
    const FieldValue* const found = held(value);
    if (found == nullptr || found->is_text) return 0;
    if (class_of<ctf::FloatClass>(found) != nullptr) return found->real;
    const auto* const integer = integer_class(found);
    if (integer == nullptr) return 0;
    return integer->is_signed ? static_cast<double>(static_cast<int64_t>(found->number))
                              : static_cast<double>(found->number);
}

const char* leat_ctf_text(const leat_ctf_value* value, size_t* size) {
    const FieldValue* const found = held(value);
    const bool is_text = found != nullptr && found->is_text;
    if (size != nullptr) *size = is_text ? found->size : 0;
    return is_text ? found->text : nullptr;
}

int leat_ctf_is_enum(const leat_ctf_value* value) {
    const FieldValue* const found = held(value);
    return integer_class(found) != nullptr && class_of<ctf::EnumClass>(found) != nullptr ? 1 : 0;
}

size_t leat_ctf_labels(const leat_ctf_value* value, const char** labels, size_t capacity) {
    if (leat_ctf_is_enum(value) == 0) return 0;
    const FieldValue* const number = held(value);
    const auto* const enumeration = class_of<ctf::EnumClass>(number);
    const viewer::FoundLabels found(number->number, *enumeration);
    const auto numbers = found.labels().first(std::min(found.labels().size(), capacity));
    if (labels == nullptr) return found.labels().size();
    for (const std::uint32_t range : numbers) *labels++ = enumeration->ranges[range].label.c_str();
    return found.labels().size();
}

size_t leat_ctf_part_count(const leat_ctf_value* value) {
    const FieldValue* const found = held(value);
    const auto kind = leat_ctf_get_kind(value);
    return kind == LEAT_CTF_STRUCT || kind == LEAT_CTF_ARRAY ? found->size : 0;
}

const leat_ctf_value* leat_ctf_first_part(const leat_ctf_value* value) {
    return leat_ctf_part_count(value) == 0 ? nullptr : outside(held(value) + 1);
}

const leat_ctf_value* leat_ctf_next_part(const leat_ctf_value* value) {
    return value == nullptr ? nullptr : outside(viewer::next_sibling(inside(value)));
}

const leat_ctf_value* leat_ctf_member(const leat_ctf_value* value, const char* name) {
    return outside(member_of(held(value), name));
}

// Columns.

leat_ctf_columns* leat_ctf_read_columns(leat_ctf_reader* reader, const char* const* names, size_t name_count,
                                        uint64_t max_rows) {
    if (reader == nullptr) return nullptr;
    auto columns = attempt(*reader, reader->call_error, [&]() -> Result<ColumnReader> {
        const viewer::RecordedTraces& traces = reader->reader.traces();
        if (names == nullptr) return ColumnReader::make({}, traces, reader->reader.filter());
        if (std::find(names, names + name_count, nullptr) != names + name_count)
            return refused("the name of a column is missing");
        const std::vector<std::string_view> titles(names, names + name_count);
        return ColumnReader::make(titles, traces, reader->reader.filter());
    });
    return columns ? read_rows(*reader, *columns, max_rows).release() : nullptr;
}

uint64_t leat_ctf_row_count(const leat_ctf_columns* columns) { return columns == nullptr ? 0 : columns->rows; }

size_t leat_ctf_column_count(const leat_ctf_columns* columns) { return columns == nullptr ? 0 : columns->forms.size(); }

const leat_ctf_column* leat_ctf_get_column(const leat_ctf_columns* columns, size_t number) {
    return number < leat_ctf_column_count(columns) ? &columns->forms[number] : nullptr;
}

void leat_ctf_free_columns(leat_ctf_columns* columns) { delete columns; }

// Description tables built byte by byte, as a hostile application could send them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.hpp"
#include "wire/app/description_format.hpp"

namespace leat::test {

class Bytes {
  public:
    template <class T>
    Bytes& value(T value) {
        return append(std::string_view(reinterpret_cast<const char*>(&value), sizeof value));  // NOLINT
    }
    Bytes& text(std::string_view text) { return value(static_cast<std::uint16_t>(text.size())).append(text); }
    Bytes& append(std::string_view bytes) {
        bytes_ += bytes;
        return *this;
    }
    [[nodiscard]] const std::string& str() const { return bytes_; }

  private:
    std::string bytes_;
};

struct TestField {
    std::string name = "field";
    std::uint8_t shape = 0;
    std::uint8_t element = 0;
    std::uint8_t element_size = 4;
    std::uint8_t flags = 0;
    std::uint8_t length_size = 0;
    std::uint32_t count = 0;
    struct Value {
        std::string label;
        std::int64_t low;
        std::int64_t high;
    };
    std::vector<Value> values{};

    [[nodiscard]] std::string bytes() const {
        Bytes out;
        out.text(name).value(shape).value(element).value(element_size).value(flags).value(length_size).value(count);
        out.value(static_cast<std::uint32_t>(values.size()));
        for (const Value& value : values) out.text(value.label).value(value.low).value(value.high);
        return out.str();
    }
};

struct TestTracepoint {
    std::string name = "test:event";
    std::vector<TestField> fields{};
    std::int32_t log_level = 6;
    std::string file = "test.c";
    std::uint32_t line = 12;
    std::string model_uri{};

    [[nodiscard]] std::string bytes() const {
        Bytes out;
        out.text(name).value(log_level).text(file).value(line).text(model_uri);
        out.value(static_cast<std::uint32_t>(fields.size()));
        for (const TestField& field : fields) out.append(field.bytes());
        return out.str();
    }
};

struct TestTable {
    std::vector<TestTracepoint> tracepoints{};
    std::uint32_t magic = wire::kDescriptionMagic;
    std::uint32_t version = wire::kDescriptionVersion;

    [[nodiscard]] std::string bytes() const {
        Bytes body;
        for (const TestTracepoint& tracepoint : tracepoints) body.append(tracepoint.bytes());
        Bytes out;
        out.value(magic).value(version).value(static_cast<std::uint32_t>(tracepoints.size()));
        out.value(static_cast<std::uint32_t>(wire::kDescriptionHeaderSize + body.str().size()));
        return out.append(body.str()).str();
    }
};

inline UntrustedBytes untrusted(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

}  // namespace leat::test

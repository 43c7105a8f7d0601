#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/decode/trace_plans.hpp"
#include "ctf/metadata/growing_metadata.hpp"
#include "ctf/metadata/metadata_reader.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// The classes and plans of a trace. It grows with the metadata. Old parts keep their address, because packets may be
// half read.
struct TraceModel {
    TraceModel(std::shared_ptr<const ctf::TraceClass> class_, ctf::TracePlans plans_)
        : trace_class(std::move(class_)), plans(std::move(plans_)) {}

    std::shared_ptr<const ctf::TraceClass> trace_class;  // where the plans point
    ctf::TracePlans plans;
};

// A trace whose metadata grows.
class LiveTrace {
  public:
    explicit LiveTrace(std::uint64_t number) : number_(number) {}

    Result<void> append_metadata(UntrustedBytes bytes);
    [[nodiscard]] std::size_t metadata_size() const { return metadata_.size(); }

    // The model for the metadata so far. Metadata is parsed here and not on arrival, so each declaration is parsed
    // once, and all that arrived since the last call is parsed together. Null until it is known what a packet begins
    // with. An error comes again at each call: whoever asks for another stream must hear of it, too. Once there is a
    // model it stays, with all that is declared before something that cannot be read, whenever that came.
    Result<std::shared_ptr<TraceModel>> model();
    // Why nothing is added to the model any more. Told once.
    std::optional<Error> take_failure();
    // Converts a value of the trace's clock; nothing if the clock is not known yet.
    std::optional<std::int64_t> nanoseconds(std::uint64_t cycles);

    [[nodiscard]] std::uint64_t number() const { return number_; }
    // A measure of the work.
    [[nodiscard]] std::uint64_t parts_read() const { return reader_->parts_read(); }

  private:
    Result<void> parse(std::string_view text);

    std::uint64_t number_;
    ctf::GrowingMetadata metadata_;
    std::shared_ptr<ctf::MetadataReader> reader_ = std::make_shared<ctf::MetadataReader>();
    std::size_t parsed_size_ = 0;  // how much of the text has been parsed
    std::shared_ptr<TraceModel> model_;
    Result<void> parsed_;  // what came of parsing that much
    bool is_failure_told_ = false;
    std::optional<Error> append_failure_;  // nothing can be appended after it
};

}  // namespace leat::viewer

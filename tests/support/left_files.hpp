// Rings in files that somebody has left who wrote there and was killed.
#pragma once

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "consumer/progress.hpp"
#include "host/kept_trace.hpp"
#include "ring/clock.hpp"
#include "ring/thread_writer.hpp"
#include "session/trace.hpp"
#include "support/scratch_directory.hpp"
#include "support/test_application.hpp"

namespace leat::test {

class LeftFiles {
  public:
    static constexpr std::uint64_t kRingSize = ring::kMinRingSize;
    static constexpr std::uint64_t kRecordSize = 12;  // a short header, and one number

    // Records with numbers from 0 on lie in the first ring, a microsecond apart.
    explicit LeftFiles(std::uint64_t records, bool overwrites = false, session::Contexts contexts = {})
        : of_session_(*session::MemoryDirectory::make_for_session(scratch_.path() / "shm", "test")),
          trace_(make_trace(of_session_, overwrites, std::move(contexts))),
          progress_(*consumer::Progress::create(trace_->ring_counts(), trace_->place())) {
        LEAT_CHECK(host::describe_memory(*trace_, {.directory = scratch_.path() / "stored"}));
        write(records);
    }

    // The recorder is killed.
    void leave() { trace_.reset(); }

    [[nodiscard]] const std::filesystem::path& scratch() const { return scratch_.path(); }
    [[nodiscard]] const std::filesystem::path& of_session() const { return of_session_; }
    [[nodiscard]] std::filesystem::path file(const std::string& name) const {
        return of_session_ / "ust/uid/0/64-bit" / name;
    }
    [[nodiscard]] const session::Trace& trace() const { return *trace_; }
    [[nodiscard]] consumer::Progress& progress() { return progress_; }

    // Where a byte of the first ring's records is in the file.
    [[nodiscard]] static std::uint64_t place_of(std::uint64_t position) {
        return ring::file_offset(kRingSize, 0) + ring::kPageSize + position % kRingSize;
    }
    void change(const std::string& name, std::uint64_t offset, const std::string& bytes) const {
        std::fstream changed(file(name), std::ios::in | std::ios::out | std::ios::binary);
        changed.seekp(static_cast<std::streamoff>(offset))
            .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        LEAT_CHECK(changed.good());
    }
    // The system has been started again since.
    void boot() const {
        std::ifstream in(file("trace.json"));
        auto known = nlohmann::json::parse(in);
        known["boot"] = "another";
        std::ofstream(file("trace.json")) << known;
    }

  private:
    static std::unique_ptr<session::Trace> make_trace(const std::filesystem::path& of_session, bool overwrites,
                                                      session::Contexts contexts) {
        session::Channel channel{.name = "channel0", .contexts = std::move(contexts), .ring_size = kRingSize};
        channel.overwrites = overwrites;
        auto trace = *session::Trace::create(
            {.session_name = "test", .key = {}, .is_kept = true, .memory_directory = of_session}, std::vector{channel});
        const session::Application application =
            test::application({{.name = "test:n", .fields = {{.name = "n", .element_size = 8}}}});
        const auto enrolled = trace->channels()[0]->enroll(application, 0, session::OnConflict::kRefuse);
        LEAT_CHECK(enrolled.id == 0 && enrolled.warning.empty());
        return trace;
    }

    void write(std::uint64_t records) const {
        const ring::RingSet& rings = trace_->channels()[0]->rings();
        ring::RecordWriter writer{};
        writer.map.mask = kRingSize - 1;
        writer.map.form = ring::header_form(ring::HeaderKind::kCompact);
        if (rings.geometry().overwrites) writer.map.overwrite();
        for (std::uint64_t n = 0; n < records; ++n)
            LEAT_CHECK(ring::thread_write(writer, rings.ring(0), 0, &n, sizeof n, rings.created() + 1000 * (n + 1)) ==
                       ring::WriteOutcome::kWritten);
    }

    ScratchDirectory scratch_;
    std::filesystem::path of_session_;
    std::unique_ptr<session::Trace> trace_;
    consumer::Progress progress_;
};

}  // namespace leat::test

// Kills writers with SIGKILL at random moments while they write into shared rings, and checks that nothing is torn, out
// of order or missing. Session, rings and consumer live in this process, as in `leat record`. The writers are real
// programs that register over the socket.
//
//   events counted by the writers <= delivered + discarded <= counted + kills
//
// The upper limit has the kills because a killed writer may have written one event without counting it. With
// --children, writers also have children of every kind, which write for them and are killed, too.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <random>

#include "crash/step_checker.hpp"
#include "crash/step_event.hpp"
#include "crash/writer.hpp"
#include "host/recorder.hpp"
#include "session/session.hpp"
#include "support/rseq.hpp"
#include "support/scratch_directory.hpp"
#include "support/skip.hpp"
#include "wire/app/app_socket.hpp"

namespace leat::torture {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

struct Options {
    std::uint32_t writers = 6;
    std::uint32_t kills = 1000;
    std::uint64_t ring_size = 16U << 20;
    std::uint64_t seed = std::random_device{}();
    bool has_no_rseq = false;
    bool has_children = false;
};

// One round: how it runs, and what it shows.
struct Phase {
    const char* name;
    std::uint64_t ring_size;
    std::uint32_t kills;
    bool is_paced;  // writers wait for the consumer, so that nothing is discarded and every gap shows
};

struct Figures {
    std::uint32_t kills = 0;
    std::uint32_t writers = 0;
    std::uint64_t counted = 0;
    std::uint64_t delivered = 0;
    std::uint64_t discarded = 0;
};

constexpr std::uint64_t kLargestRecord = 13 + 4 + 17 + kLongestTail;
constexpr microseconds kLongestPause{4000};  // between two kills
constexpr unsigned kNormalEnds = 8;          // one in so many writers ends normally instead
constexpr std::uint32_t kAllTheTime = 400;   // loops in a round without kills

class Round {
  public:
    static Result<std::unique_ptr<Round>> create(const Options& options, const Phase& phase);

    // Fails with the first violation.
    Result<Figures> run();

  private:
    struct Alive {
        std::uint32_t incarnation;
        pid_t pid;
        bool is_killed = false;
    };

    Round(const Options& options, const Phase& phase, Ledger ledger);

    Result<void> start_missing_writers();
    void end_somebody();
    void kill(std::uint32_t incarnation, pid_t pid);
    void end_all();
    Result<void> reap();
    [[nodiscard]] static bool reap_orphans();
    void turn(microseconds longest_wait);
    [[nodiscard]] Result<Figures> balance() const;
    [[nodiscard]] Result<void> check_purpose(const Figures& figures) const;
    [[nodiscard]] Result<void> check_contiguous() const;

    Options options_;
    Phase phase_;
    std::mt19937_64 random_;
    test::ScratchDirectory runtime_;
    Ledger ledger_;
    StepChecker* checker_ = nullptr;  // the output of the recording, which owns it
    std::unique_ptr<host::Recorder> recorder_;
    host::Recording* recording_ = nullptr;  // its own
    std::vector<Alive> alive_;
    std::vector<std::uint32_t> kills_of_;  // by incarnation; kills of its children count, too
    std::uint32_t started_ = 0;
    std::uint32_t kills_ = 0;
};

Result<std::unique_ptr<Round>> Round::create(const Options& options, const Phase& phase) {
    const session::Channel channel{.rules = session::make_rules({kStepEvent}, {}, std::nullopt),
                                   .contexts = wire::kContextVpid,
                                   .ring_size = phase.ring_size};
    // Twice the expected number of normal ends, and some more.
    Ledger ledger = LEAT_TRY(Ledger::create(2 * options.writers + 2 * phase.kills + 100));
    std::unique_ptr<Round> round(new Round(options, phase, std::move(ledger)));
    auto checker = std::make_unique<StepChecker>(round->ledger_, options.has_children);
    round->checker_ = checker.get();
    round->recorder_ =
        LEAT_TRY(host::Recorder::create({.name = "torture", .uid = ::getuid(), .channels = {channel}},
                                        round->runtime_.path(), std::move(checker), {.wake_at_part = 4}));
    round->recording_ = &round->recorder_->recording();
    return round;
}

Round::Round(const Options& options, const Phase& phase, Ledger ledger)
    : options_(options), phase_(phase), random_(options.seed), ledger_(std::move(ledger)), kills_of_(ledger_.size()) {}

Result<Figures> Round::run() {
    for (std::uint32_t i = 0; phase_.kills == 0 ? i < kAllTheTime : kills_ < phase_.kills; ++i) {
        LEAT_TRY(start_missing_writers());
        turn(microseconds(random_() % static_cast<std::uint64_t>(kLongestPause.count())));
        if (phase_.kills != 0) end_somebody();
        LEAT_TRY(reap());
        if (!checker_->violation().empty()) return corrupt("{}", checker_->violation());
    }
    end_all();
    while (!alive_.empty()) {
        turn(microseconds(1000));
        LEAT_TRY(reap());
    }
    while (!reap_orphans()) turn(microseconds(1000));
    recorder_->finish();
    if (recording_->output_error()) return tl::unexpected(*recording_->output_error());
    return balance();
}

Result<void> Round::start_missing_writers() {
    while (alive_.size() < options_.writers) {
        if (started_ == ledger_.size()) return refused("the ledger is full");
        const std::uint64_t lead = phase_.ring_size / kLargestRecord / options_.writers;
        const pid_t pid = LEAT_TRY(start_writer(started_, ledger_,
                                                {.runtime_directory = runtime_.path(),
                                                 .lead = phase_.is_paced ? lead : 0,
                                                 .has_rseq = !options_.has_no_rseq,
                                                 .has_children = options_.has_children}));
        checker_->expect(started_, pid);
        alive_.push_back({started_++, pid});
    }
    return {};
}

void Round::end_somebody() {
    Alive& chosen = alive_[random_() % alive_.size()];
    if (chosen.is_killed) return;
    if (random_() % kNormalEnds == 0) {
        ledger_[chosen.incarnation].is_ending = 1;
        return;
    }
    const pid_t child = ledger_[chosen.incarnation].child.load();
    if (child != 0 && random_() % 2 == 0) return kill(chosen.incarnation, child);
    kill(chosen.incarnation, chosen.pid);
    chosen.is_killed = true;
}

void Round::kill(std::uint32_t incarnation, pid_t pid) {
    ::kill(pid, SIGKILL);
    ++kills_of_[incarnation];
    ++kills_;
}

void Round::end_all() {
    for (const Alive& writer : alive_) ledger_[writer.incarnation].is_ending = 1;
}

Result<void> Round::reap() {
    for (std::size_t i = 0; i < alive_.size();) {
        int status = 0;
        if (::waitpid(alive_[i].pid, &status, WNOHANG) != alive_[i].pid) {
            ++i;
            continue;
        }
        const bool is_expected = alive_[i].is_killed || (WIFEXITED(status) && WEXITSTATUS(status) == kWriterDone);
        if (!is_expected) return corrupt("writer {} ended with wait status {:#x}", alive_[i].incarnation, status);
        alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return {};
}

// Children of a killed writer go on, and this process becomes their parent. Returns whether all of them have ended.
bool Round::reap_orphans() {
    for (;;) {
        const pid_t pid = ::waitpid(-1, nullptr, WNOHANG | __WALL);
        if (pid <= 0) return pid < 0;
    }
}

// The checker takes everything at once, so the rings are drained at every wake-up. If a writer is killed while it
// registers, the recording warns, which is no fault here. A living writer that is not traced ends, and that is noticed.
void Round::turn(microseconds longest_wait) {
    const auto until = Clock::now() + longest_wait;
    do {
        recorder_->turn({}, std::max<Clock::duration>(until - Clock::now(), Clock::duration::zero()));
        recording_->drain();
    } while (Clock::now() < until && checker_->violation().empty());
}

Result<Figures> Round::balance() const {
    Figures figures{.kills = kills_, .writers = started_, .discarded = recording_->consumer().discarded()};
    for (std::uint32_t incarnation = 0; incarnation < started_; ++incarnation) {
        figures.counted += ledger_[incarnation].counted;
        figures.delivered += checker_->writer(incarnation).delivered;
    }
    if (!checker_->violation().empty()) return corrupt("{}", checker_->violation());
    if (!recording_->consumer().quarantined().empty())
        return corrupt("{}", recording_->consumer().quarantined().front());
    if (checker_->discarded() != figures.discarded)
        return corrupt("{} discarded, the packets tell of {}", figures.discarded, checker_->discarded());
    if (recording_->consumer().totals().events != figures.delivered)
        return corrupt("the consumer tells of {} events, {} came", recording_->consumer().totals().events,
                       figures.delivered);
    const std::uint64_t found = figures.delivered + figures.discarded;
    if (found < figures.counted || found > figures.counted + kills_)
        return corrupt("{} events counted by their writers, {} delivered + {} discarded = {}; {} kills",
                       figures.counted, figures.delivered, figures.discarded, found, kills_);
    LEAT_TRY(check_purpose(figures));
    if (phase_.is_paced) LEAT_TRY(check_contiguous());
    return figures;
}

// A round that did not do what it is meant to do proves nothing.
Result<void> Round::check_purpose(const Figures& figures) const {
    if (figures.delivered == 0) return corrupt("no event came");
    if (phase_.is_paced && figures.discarded != 0)
        return corrupt("{} events discarded, of writers that wait for the consumer", figures.discarded);
    if (!phase_.is_paced && figures.discarded == 0) return corrupt("no event discarded: the rings were never full");
    return {};
}

Result<void> Round::check_contiguous() const {
    for (std::uint32_t incarnation = 0; incarnation < started_; ++incarnation) {
        const StepChecker::Writer& writer = checker_->writer(incarnation);
        const std::uint64_t counted = ledger_[incarnation].counted;
        const std::uint64_t in_flight = kills_of_[incarnation];
        // A killed child may leave a number that nobody uses.
        if (!options_.has_children && !writer.is_contiguous())
            return corrupt("writer {}: {} events came, up to {}", incarnation, writer.delivered, writer.highest);
        if (writer.delivered < counted || writer.delivered > counted + in_flight)
            return corrupt("writer {}: counted {} events, {} came", incarnation, counted, writer.delivered);
    }
    return {};
}

int run(const Options& options) {
    if (!options.has_no_rseq && !test::has_rseq()) return test::note_skip("rseq") ? 0 : 1;
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const std::array phases{Phase{"paced", options.ring_size, options.kills, true},
                            Phase{"overrun", ring::kMinRingSize, options.kills, false},
                            Phase{"nobody killed", ring::kMinRingSize, 0, false}};
    for (const Phase& phase : phases) {
        auto round = Round::create(options, phase);
        const Result<Figures> figures = round ? (*round)->run() : tl::unexpected(round.error());
        if (!figures) {
            std::fprintf(stderr, "torture kill, %s, seed %llu: %s\n", phase.name,
                         static_cast<unsigned long long>(options.seed), figures.error().message.c_str());
            return 1;
        }
        fmt::print("torture kill, {}{}{}: {} writers, {} killed; {} events counted, {} delivered + {} discarded\n",
                   phase.name, options.has_children ? ", children" : "", options.has_no_rseq ? ", no rseq" : "",
                   figures->writers, figures->kills, figures->counted, figures->delivered, figures->discarded);
        std::fflush(stdout);
    }
    return 0;
}

}  // namespace
}  // namespace leat::torture

int main(int argc, char** argv) {
    leat::torture::Options options;
    std::uint32_t incarnation = 0;
    int ledger_fd = -1;
    std::uint64_t lead = 0;
    CLI::App app{"Kills writers at random moments; nothing that they wrote may be torn, out of order, or missing"};
    app.add_option("--writers", options.writers, "At a time")->check(CLI::Range(1, 60))->capture_default_str();
    app.add_option("--kills", options.kills, "In each of two rounds")->capture_default_str();
    app.add_option("--ring-size", options.ring_size, "Of the first round; a power of two")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Validator(
            [](std::string& text) {
                return leat::ring::is_valid_ring_size(std::stoull(text)) ? "" : "not a power of two from 64K to 1G";
            },
            "SIZE"));
    app.add_option("--seed", options.seed, "Of the random moments");
    app.add_flag("--no-rseq", options.has_no_rseq, "Rings that belong to threads instead of CPUs");
    app.add_flag("--children", options.has_children, "Writers fork, vfork and clone, and their children write");
    const auto* writer = app.add_option("--writer", incarnation)->group("");
    app.add_option("--ledger-fd", ledger_fd)->group("");
    app.add_option("--lead", lead)->group("");
    CLI11_PARSE(app, argc, argv);
    return writer->count() != 0 ? leat::torture::run_writer(incarnation, ledger_fd, lead, options.has_children)
                                : leat::torture::run(options);
}

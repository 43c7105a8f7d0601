// Viewers that read live sessions from a relay and drop what they have read.
//
//     bench-relay-view PORT SESSIONS VIEWERS news|poll
//
// Viewer i follows session "bench<i * SESSIONS / VIEWERS>" from its beginning. "news": it uses our GET_NEWS. "poll": it
// does as babeltrace2 does, GET_NEXT_INDEX and GET_PACKET for one stream after another, and again after 100 ms if
// nothing came. The program prints "attached". Then, for each number that it reads, it waits until all viewers together
// have got so many packets, but at most 20 s, and at most 3 s without a packet. It prints how many they have got, and
// the median and the 99th percentile (us) of the time from the end of a packet to its arrival, for the packets since
// the last line.
#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "monotonic.h"
#include "sockets.hpp"
#include "wire/live/live_messages.hpp"

namespace leat::bench {
namespace {

using wire::LiveCommand;

constexpr auto kPollPeriod = std::chrono::milliseconds(100);
constexpr auto kPatience = std::chrono::seconds(20);
constexpr auto kSilence = std::chrono::seconds(3);
constexpr std::uint32_t kNewsSize = 1U << 20;
constexpr std::size_t kLargest = std::size_t{16} << 20;  // of a packet or a piece of metadata

template <class Status>
[[noreturn]] void refused(LiveCommand command, Status status) {
    std::fprintf(stderr, "%s: the relay answered %u\n", wire::name_of(command).c_str(), static_cast<unsigned>(status));
    std::_Exit(1);
}

// The packets that all viewers together have got.
class Arrivals {
  public:
    void add(std::uint64_t end_ns) {
        const std::lock_guard lock(mutex_);
        ++count_;
        delays_ns_.push_back(now_ns() - static_cast<std::int64_t>(end_ns));
    }
    [[nodiscard]] std::uint64_t count() {
        const std::lock_guard lock(mutex_);
        return count_;
    }
    void print_and_forget() {
        const std::lock_guard lock(mutex_);
        std::ranges::sort(delays_ns_);
        const auto percentile_us = [this](std::size_t percent) {
            return delays_ns_.empty() ? 0.0 : static_cast<double>(delays_ns_[delays_ns_.size() * percent / 100]) / 1e3;
        };
        std::printf("%llu %.1f %.1f\n", static_cast<unsigned long long>(count_), percentile_us(50), percentile_us(99));
        std::fflush(stdout);
        delays_ns_.clear();
    }

  private:
    std::mutex mutex_{};
    std::uint64_t count_ = 0;
    std::vector<std::int64_t> delays_ns_{};
};

class Viewer {
  public:
    Viewer(std::uint16_t port, const std::string& session, bool takes_news, Arrivals& arrivals)
        : socket_(connect_to(port)), takes_news_(takes_news), arrivals_(&arrivals) {
        connect();
        ask<wire::CreateViewerReply>(LiveCommand::kCreateSession);
        session_id_ = find(session);
        const auto reply =
            ask<wire::AttachReply>(LiveCommand::kAttachSession,
                                   wire::AttachSession{.session_id = session_id_, .seek = wire::Seek::kBeginning});
        if (reply.status != wire::AttachStatus::kOk) refused(LiveCommand::kAttachSession, reply.status);
        receive_streams(reply.streams);
        for (const auto& [trace, metadata] : metadata_) fetch_metadata(trace);
    }

    // Reads for ever.
    [[noreturn]] void read() {
        while (true) {
            if (takes_news_)
                read_news();
            else if (!poll())
                std::this_thread::sleep_for(kPollPeriod);
        }
    }

  private:
    template <class Reply>
    Reply receive() {
        buffer_.resize(wire::kSizeOf<Reply>);
        receive_all(socket_.get(), buffer_);
        auto reply = wire::parse<Reply>(buffer_);
        if (!reply) {
            std::fprintf(stderr, "%s\n", reply.error().message.c_str());
            std::_Exit(1);
        }
        return *std::move(reply);
    }
    template <class Reply, class... Request>
    Reply ask(LiveCommand command, const Request&... request) {
        wire::Bytes bytes;
        wire::append_request(bytes, command, request...);
        send_all(socket_.get(), bytes, {});
        return receive<Reply>();
    }

    void connect() {
        wire::Connect wish;
        if (takes_news_) wish.viewer_session_id = wire::kAskCapabilities | wire::kCanWait | wire::kCanGetNews;
        const auto reply = ask<wire::Connect>(LiveCommand::kConnect, wish);
        if (takes_news_ && (reply.type & wire::kCanGetNews) == 0) refused(LiveCommand::kGetNews, reply.type);
    }

    std::uint64_t find(const std::string& name) {
        const auto count = ask<wire::WordReply>(LiveCommand::kListSessions).value;
        std::uint64_t id = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            const auto session = receive<wire::ListedSession>();
            if (session.session_name == name) id = session.id;
        }
        if (id == 0) {
            std::fprintf(stderr, "the relay lists %u sessions, and no %s\n", count, name.c_str());
            std::_Exit(1);
        }
        return id;
    }

    void receive_streams(std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            const auto stream = receive<wire::StreamDescriptor>();
            if (stream.is_metadata != 0)
                metadata_[stream.trace_id] = stream.id;
            else
                traces_[stream.id] = stream.trace_id;
        }
    }
    void fetch_streams() {
        const auto reply = ask<wire::NewStreamsReply>(LiveCommand::kGetNewStreams, wire::LiveIdRequest{session_id_});
        if (reply.status == wire::NewStreamsStatus::kOk) receive_streams(reply.streams);
    }
    void fetch_metadata(std::uint64_t trace) {
        while (true) {
            const auto reply =
                ask<wire::MetadataReply>(LiveCommand::kGetMetadata, wire::LiveIdRequest{metadata_[trace]});
            if (reply.status != wire::MetadataStatus::kOk || reply.length == 0) return;
            skip(reply.length);
        }
    }
    void skip(std::size_t size) {
        if (size > kLargest) {
            std::fprintf(stderr, "the relay sends %zu bytes at once\n", size);
            std::_Exit(1);
        }
        buffer_.resize(size);
        receive_all(socket_.get(), buffer_);
    }

    void read_news() {
        const auto news = ask<wire::NewsReply>(LiveCommand::kGetNews, wire::GetNews{kNewsSize});
        if (news.status != wire::NewsStatus::kOk) refused(LiveCommand::kGetNews, news.status);
        std::vector<std::uint64_t> wanted;
        for (std::uint32_t i = 0; i < news.entries; ++i) {
            const auto entry = receive<wire::NewsEntry>();
            skip(entry.length);
            if ((entry.index.flags & wire::kNewMetadata) != 0) wanted.push_back(traces_[entry.stream_id]);
            if (entry.index.status == wire::IndexStatus::kOk) arrivals_->add(entry.index.entry.timestamp_end);
        }
        if ((news.flags & wire::kNewStreams) != 0) fetch_streams();
        for (const std::uint64_t trace : wanted) fetch_metadata(trace);
    }

    // Returns whether there was a packet.
    bool poll() {
        bool is_new = false;
        std::uint32_t flags = 0;
        for (const auto& [id, trace] : traces_) {
            const auto index = ask<wire::NextIndexReply>(LiveCommand::kGetNextIndex, wire::LiveIdRequest{id});
            flags |= index.flags;
            if ((index.flags & wire::kNewMetadata) != 0) fetch_metadata(trace);
            if (index.status == wire::IndexStatus::kError) refused(LiveCommand::kGetNextIndex, index.status);
            if (index.status != wire::IndexStatus::kOk) continue;
            fetch_packet(id, index);
            is_new = true;
        }
        if ((flags & wire::kNewStreams) != 0) fetch_streams();
        return is_new;
    }
    void fetch_packet(std::uint64_t id, const wire::NextIndexReply& index) {
        const wire::GetPacket request{id, index.entry.offset, static_cast<std::uint32_t>(index.entry.packet_size / 8)};
        const auto packet = ask<wire::PacketReply>(LiveCommand::kGetPacket, request);
        if (packet.status != wire::PacketStatus::kOk) refused(LiveCommand::kGetPacket, packet.status);
        skip(packet.length);
        arrivals_->add(index.entry.timestamp_end);
    }

    UniqueFd socket_;
    bool takes_news_;
    Arrivals* arrivals_;
    std::uint64_t session_id_ = 0;
    std::map<std::uint64_t, std::uint64_t> traces_{};    // trace of each stream
    std::map<std::uint64_t, std::uint64_t> metadata_{};  // metadata stream of each trace
    wire::Bytes buffer_{};
};

void wait_for(Arrivals& arrivals, std::uint64_t wanted) {
    const auto begin = std::chrono::steady_clock::now();
    auto last_arrival = begin;
    std::uint64_t before = 0;
    for (auto now = begin; now < begin + kPatience && now < last_arrival + kSilence;
         now = std::chrono::steady_clock::now()) {
        const std::uint64_t count = arrivals.count();
        if (count >= wanted) return;
        if (count != before) last_arrival = now;
        before = count;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

[[noreturn]] void run(std::uint16_t port, unsigned sessions, unsigned viewers, bool takes_news) {
    Arrivals arrivals;
    std::deque<Viewer> all;
    for (unsigned i = 0; i < viewers; ++i)
        all.emplace_back(port, "bench" + std::to_string(i * sessions / viewers), takes_news, arrivals);
    std::puts("attached");
    std::fflush(stdout);
    for (Viewer& viewer : all) std::thread([&viewer] { viewer.read(); }).detach();
    unsigned long long count = 0;
    while (std::scanf("%llu", &count) == 1) {
        wait_for(arrivals, count);
        arrivals.print_and_forget();
    }
    std::_Exit(0);  // the viewers are still reading
}

}  // namespace
}  // namespace leat::bench

int main(int argc, char** argv) {
    const std::string_view mode = argc == 5 ? argv[4] : "";
    if (mode != "news" && mode != "poll") {
        std::fprintf(stderr, "usage: bench-relay-view PORT SESSIONS VIEWERS news|poll\n");
        return 2;
    }
    leat::bench::run(static_cast<std::uint16_t>(std::strtoul(argv[1], nullptr, 10)),
                     static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)),
                     static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10)), mode == "news");
}

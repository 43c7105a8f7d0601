// Verbs for channels: enable-channel, disable-channel, add-context.
#include "cli/command.hpp"
#include "cli/steer/comma_list.hpp"
#include "cli/steer/quantities.hpp"
#include "cli/steer/session_text.hpp"
#include "cli/steer/verb.hpp"
#include "session/channel.hpp"
#include "session/contexts.hpp"
#include "trace/file_limits.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::cli {
namespace {

constexpr char kEnableFooter[] =
    "A channel that exists is enabled again; its parameters stay. A session that was started gets no new channels.\n"
    "Examples:\n"
    "  leat enable-channel requests --ring-size=4M\n"
    "  leat enable-channel everything --header=large\n"
    "  leat enable-channel guarded --buffers=pid\n"
    "  leat enable-channel audit --mode=blocking --blocking-timeout=500ms\n"
    "                                 for programs that are started with LEAT_ALLOW_BLOCKING=1\n"
    "  leat enable-channel archive --read-period=10s\n"
    "  leat enable-channel newest --tracefile-size=16M --tracefile-count=4";

constexpr char kContextFooter[] =
    "Kinds: {};\nand $app.PROVIDER:NAME, which programs provide (leat_context_provide).\nAdd them before the first "
    "start.\n"
    "Examples:\n"
    "  leat add-context vpid vtid procname\n"
    "  leat add-context vuid,vgid,uts_ns -c requests\n"
    "  leat add-context '$app.shop:request'";

struct ChannelOptions : VerbOptions {
    std::string channel{};
    std::optional<std::string> ring_size{};
    std::optional<std::string> tracefile_size{};
    std::optional<std::uint64_t> tracefile_count{};
    std::optional<std::string> buffers{};
    std::optional<std::string> mode{};
    std::optional<std::string> header{};
    std::optional<std::string> blocking_timeout{};
    std::optional<std::string> read_period{};
    std::optional<std::string> switch_period{};
};

constexpr std::int64_t kNoLimit = -1;

template <class T>
void set_member(Json& request, const char* key, const std::optional<T>& value) {
    if (value) request[key] = *value;
}

Outcome<void> set_quantity(Json& request, const char* key, const std::optional<std::string>& text,
                           Result<std::uint64_t> (*parse)(std::string_view)) {
    if (!text) return {};
    const auto quantity = parse(*text);
    if (!quantity) return usage("{}", quantity.error().message);
    request[key] = *quantity;
    return {};
}

Outcome<void> set_period(Json& request, const char* key, const char* option, const std::optional<std::string>& text) {
    LEAT_TRY(set_quantity(request, key, text, parse_period));
    if (text && !session::is_valid_period(request[key].get<std::uint64_t>()))
        return usage("{} is from 1 ms to 1 minute, or 0 for the default", option);
    return {};
}

Outcome<void> set_blocking_timeout(Json& request, const std::optional<std::string>& text) {
    constexpr const char* kKey = "blocking_timeout_us";
    if (text == "inf") {
        request[kKey] = kNoLimit;
        return {};
    }
    LEAT_TRY(set_quantity(request, kKey, text, parse_period));
    if (text && request[kKey].get<std::uint64_t>() >= wire::kBlocksForever)
        return usage("--blocking-timeout is at most 71 minutes, or inf");
    return {};
}

Outcome<void> set_file_limits(Json& request, const ChannelOptions& options) {
    constexpr std::uint64_t kSmallest = trace::FileLimits::kSmallestSize;
    LEAT_TRY(set_quantity(request, "tracefile_size", options.tracefile_size, parse_size));
    const std::uint64_t size = request.value("tracefile_size", std::uint64_t{0});
    if (size != 0 && size < kSmallest) return usage("--tracefile-size is at least {} bytes", kSmallest);
    if (options.tracefile_count.value_or(0) != 0 && size == 0)
        return usage("--tracefile-count files of which size: give --tracefile-size, too");
    set_member(request, "tracefile_count", options.tracefile_count);
    return {};
}

Outcome<Json> enable_channel_request(const ChannelOptions& options) {
    Json request = request_of("enable-channel", options.session);
    request["channel"] = options.channel;
    LEAT_TRY(set_quantity(request, "ring_size", options.ring_size, parse_size));
    set_member(request, "buffers", options.buffers);
    set_member(request, "mode", options.mode);
    LEAT_TRY(set_blocking_timeout(request, options.blocking_timeout));
    if (options.mode && options.mode != "blocking" && request.value("blocking_timeout_us", std::int64_t{0}) != 0)
        return usage("--blocking-timeout is of --mode=blocking, not of --mode={}", *options.mode);
    set_member(request, "header", options.header);
    LEAT_TRY(set_period(request, "read_period_us", "--read-period", options.read_period));
    LEAT_TRY(set_period(request, "switch_period_us", "--switch-period", options.switch_period));
    LEAT_TRY(set_file_limits(request, options));
    return request;
}

void say_channel(const ChannelOptions& options, Steering& steering, const char* what) {
    const Json& answer = steering.result();
    steering.say(fmt::format("channel {} of session {} {}{}", quoted(options.channel), quoted_member(answer, "session"),
                             is_done_already(answer) ? "is already " : "", what));
}

Outcome<void> enable_channel(const ChannelOptions& options, Steering& steering) {
    const Json request = LEAT_TRY(enable_channel_request(options));
    steering.result() = LEAT_TRY(steering.ask(request));
    say_channel(options, steering, "enabled");
    return {};
}

Outcome<void> disable_channel(const ChannelOptions& options, Steering& steering) {
    Json request = request_of("disable-channel", options.session);
    request["channel"] = options.channel;
    steering.result() = LEAT_TRY(steering.ask(request));
    say_channel(options, steering, "disabled");
    return {};
}

void add_channel_argument(CLI::App& command, ChannelOptions& options) {
    command.add_option("CHANNEL", options.channel, "name of the channel")->required()->type_name("");
    add_session_option(command, options);
}

void add_buffer_options(CLI::App& command, ChannelOptions& options) {
    add_text(command, "--ring-size", options.ring_size, "Bytes of each CPU's ring, a power of two: 64K to 1G")
        ->type_name("SIZE");
    add_text(command, "--buffers", options.buffers, "Who shares the rings: all processes of a user (default), or none")
        ->check(CLI::IsMember({"user", "pid"}))
        ->type_name("WHO");
    add_text(command, "--mode", options.mode,
             "When a ring is full: discard events (default), or blocking: programs that allow it wait")
        ->check(CLI::IsMember({"discard", "blocking", "overwrite"}))
        ->type_name("MODE");
    add_text(command, "--blocking-timeout", options.blocking_timeout,
             "Block for this long at most, up to 71m; inf: no limit (default)")
        ->type_name("PERIOD|inf");
    add_text(command, "--header", options.header,
             "Event headers: compact (few event types), large (many) or tiny (times of 256 ns)")
        ->check(CLI::IsMember({"compact", "large", "tiny"}))
        ->type_name("KIND");
}

void add_output_options(CLI::App& command, ChannelOptions& options) {
    add_text(command, "--read-period,--read-timer", options.read_period,
             "Longest time from an event until it is in the trace, 1ms to 1m (default: 100ms)")
        ->type_name("PERIOD");
    add_text(command, "--switch-period,--switch-timer", options.switch_period,
             "Longest time that a packet stays open: bounds the same, and the shorter one counts")
        ->type_name("PERIOD");
    add_text(command, "--tracefile-size", options.tracefile_size,
             "Begin a new file for a stream when its file has this many bytes")
        ->type_name("SIZE");
    command
        .add_option("--tracefile-count", options.tracefile_count,
                    "And keep only this many files of each stream: the oldest is removed")
        ->check(CLI::Range(0, 1'000'000'000))
        ->type_name("N");
}

struct ContextOptions : VerbOptions {
    std::vector<std::string> kinds{};
    std::vector<std::string> types{};  // the same, as lttng takes them
    std::optional<std::string> channel{};
};

Outcome<void> add_context(const ContextOptions& options, Steering& steering) {
    Json request = request_of("add-context", options.session);
    set_member(request, "channel", options.channel);
    std::vector<std::string> kinds = options.kinds;
    kinds.insert(kinds.end(), options.types.begin(), options.types.end());
    if (kinds.empty()) return usage("KIND is required: what each event shall carry");
    request["contexts"] = split_at_commas(kinds);
    steering.result() = LEAT_TRY(steering.ask(request));
    const Json& answer = steering.result();
    const bool is_one = answer.at("channels").size() == 1;
    steering.say(fmt::format("{} {}{} channel{} {} of session {}", join(request.at("contexts")),
                             is_done_already(answer) ? "already " : "", is_done_already(answer) ? "in" : "added to",
                             is_one ? "" : "s", join(answer.at("channels")), quoted_member(answer, "session")));
    return {};
}

}  // namespace

void add_channel_verbs(CLI::App& app, int& exit_status) {
    const auto enable =
        add_verb(app, exit_status, "enable-channel", "make a channel, or enable one again", enable_channel);
    add_channel_argument(enable.command, enable.options);
    add_buffer_options(enable.command, enable.options);
    add_output_options(enable.command, enable.options);
    accept_userspace(enable.command);
    enable.command.footer(kEnableFooter);
    const auto disable = add_verb(app, exit_status, "disable-channel", "record nothing in a channel", disable_channel);
    add_channel_argument(disable.command, disable.options);
    accept_userspace(disable.command);
    const auto context = add_verb(app, exit_status, "add-context", "let each event carry more", add_context);
    add_texts(context.command, "KIND", context.options.kinds, "what each event shall carry")->type_name("");
    add_texts(context.command, "-t,--type", context.options.types, "The same")->group("");
    accept_userspace(context.command);
    add_session_option(context.command, context.options);
    add_text(context.command, "-c,--channel", context.options.channel, "The channel (default: all)")->type_name("NAME");
    context.command.footer(fmt::format(kContextFooter, session::all_context_names()));
}

}  // namespace leat::cli

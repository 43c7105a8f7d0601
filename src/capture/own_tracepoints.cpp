#include "capture/own_tracepoints.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "tracer/capture_link.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::capture {
namespace {

constexpr wire::Lane kLane = wire::Lane::kRecorder;

struct Found {
    std::vector<std::string> paths{};
    std::size_t without_file = 0;
};

Found find_control_files() {
    Found found;
    leat_capture_control_files(
        [](const char* path, void* context) {
            Found& all = *static_cast<Found*>(context);
            if (path != nullptr)
                all.paths.emplace_back(path);
            else
                ++all.without_file;
        },
        &found);
    return found;
}

// Whether the file of that name was removed, though not by the program, whose library has gone.
bool is_removed(const std::string& path) {
    if (::access(path.c_str(), F_OK) == 0 || errno != ENOENT) return false;
    return std::ranges::count(find_control_files().paths, path) != 0;
}

UniqueFd open_control_file(const std::string& path) {
    return UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

session::Application application_of(const wire::ControlFile& control, uid_t uid,
                                    std::vector<wire::TracepointDescription> known) {
    return {.pid = ::getpid(),
            .vpid = ::getpid(),
            .uid = uid,
            .procname = control.procname(),
            .bitness = control.bitness(),
            .tracepoints = std::make_shared<const session::Tracepoints>(std::move(known))};
}

}  // namespace

Result<std::unique_ptr<OwnTracepoints>> OwnTracepoints::create(session::Session& session) {
    if (!leat_capture_begin())
        return refused("another capture of this program runs, or `leat record` traces it: one of them at a time");
    return std::unique_ptr<OwnTracepoints>(new OwnTracepoints(session));
}

OwnTracepoints::OwnTracepoints(session::Session& session)
    : session_(session), process_(leat_capture_process()), uid_(::geteuid()) {}

OwnTracepoints::~OwnTracepoints() {
    if (leat_capture_process() != process_) {
        leat_capture_leave();
        return;
    }
    try {
        switch_off();
    } catch (const std::exception&) {
        // There is no memory to look for copies. Their channel goes: what is on in one is discarded.
    }
    for (const std::uint32_t channel : channels_) leat_capture_detach(channel);
    leat_capture_end();
}

bool OwnTracepoints::has_files() {
    const Found found = find_control_files();
    return found.paths.empty() ? found.without_file == 0 : !std::ranges::all_of(found.paths, is_removed);
}

bool OwnTracepoints::has_news() const { return leat_capture_control_changes() != changes_; }

std::vector<std::string> OwnTracepoints::switch_on() {
    std::vector<std::string> warnings;
    has_switched_ = true;
    changes_ = leat_capture_control_changes();
    const Found found = find_control_files();
    std::erase_if(modules_, [&](const Module& module) { return std::ranges::count(found.paths, module.path) == 0; });
    for (const std::string& path : found.paths) {
        if (std::ranges::count(modules_, path, &Module::path) != 0) continue;
        const auto done = switch_on(path, warnings);
        if (!done) warnings.push_back(done.error().message);
    }
    if (found.without_file != 0)
        warnings.push_back("tracepoints are not captured that have no file: is /dev/shm full, or not writable?");
    return warnings;
}

// The file may be gone again: its library, too.
Result<void> OwnTracepoints::switch_on(const std::string& path, std::vector<std::string>& warnings) {
    UniqueFd fd = open_control_file(path);
    if (!fd.is_open() && errno == ENOENT) {
        if (is_removed(path)) return refused("tracepoints are not captured: somebody has removed {}", path);
        return {};
    }
    if (!fd.is_open()) return io_error(fmt::format("cannot open {}", path));
    wire::ControlFile control = LEAT_TRY(wire::ControlFile::open(std::move(fd), kLane));
    const session::Application application = application_of(control, uid_, LEAT_TRY(control.read_descriptions()));
    session::Orders orders(application.tracepoints->size());
    session_.add_orders(application, orders);
    std::ranges::move(orders.warnings, std::back_inserter(warnings));
    for (const session::TraceChannel* const channel : orders.channels) LEAT_TRY(attach(*channel));
    modules_.push_back({path, std::move(control)});
    for (std::uint32_t i = 0; i < orders.actions.size(); ++i)
        LEAT_TRY(modules_.back().control.switch_to(i, orders.actions[i]));
    note_sticky_values(application, orders);
    return {};
}

void OwnTracepoints::note_sticky_values(const session::Application& application, const session::Orders& orders) {
    const wire::ControlFile& control = modules_.back().control;
    if (control.layout().sticky_slots == 0) return;
    session::StickyProgram program{.control = duplicate(control.fd()),
                                   .layout = control.layout(),
                                   .name = application.name(),
                                   .vpid = application.vpid,
                                   .procname = application.procname};
    for (std::uint32_t i = 0; i < orders.actions.size(); ++i)
        if (!orders.actions[i].empty()) program.orders[i] = orders.actions[i];
    sticky_values_.push_back(std::move(program));
}

Result<void> OwnTracepoints::attach(const session::TraceChannel& channel) {
    const wire::ChannelMessage message = channel.message();
    if (std::ranges::count(channels_, message.number) != 0) return {};
    const wire::AppContextNames names = channel.app_context_names();
    const bool has_names = (message.contexts & wire::kContextApp) != 0;
    if (!leat_capture_attach(&message, has_names ? &names : nullptr, channel.rings().fd(), channel.clock_fd()))
        return refused("the rings cannot be mapped: is there memory, and address space?");
    channels_.push_back(message.number);
    return {};
}

// Files that have come in place of ours, for another user, have what was on.
void OwnTracepoints::find_copies() {
    for (const std::string& path : find_control_files().paths) {
        if (std::ranges::count(modules_, path, &Module::path) != 0) continue;
        UniqueFd fd = open_control_file(path);
        if (!fd.is_open()) continue;
        if (auto control = wire::ControlFile::open(std::move(fd), kLane))
            modules_.push_back({path, *std::move(control)});
    }
}

void OwnTracepoints::switch_off() {
    const auto switch_off_known = [this] {
        for (Module& module : modules_)
            for (std::uint32_t i = 0; i < module.control.tracepoint_count(); ++i) (void)module.control.switch_to(i, {});
    };
    switch_off_known();  // first: to find others takes memory
    if (has_switched_) find_copies();
    switch_off_known();
    modules_.clear();
}

}  // namespace leat::capture

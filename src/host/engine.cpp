#include "host/engine.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace leat::host {

Result<std::unique_ptr<Engine>> Engine::create() {
    auto doorbells = LEAT_TRY(DoorbellWaiter::start());
    return std::unique_ptr<Engine>(new Engine(std::move(doorbells)));
}

Recording& Engine::add(std::unique_ptr<Recording> recording) {
    for (std::uint32_t* const bell : recording->doorbells()) doorbells_->add(*bell);
    return *recordings_.emplace_back(std::move(recording));
}

void Engine::finish(Recording& recording) {
    recording.begin_finish();
    while (!recording.is_finished()) {
        if (recording.is_stuck())
            recording.give_up();
        else
            turn({});
    }
}

std::unique_ptr<Recording> Engine::remove(const Recording& recording) {
    const auto found = std::ranges::find(recordings_, &recording, &std::unique_ptr<Recording>::get);
    LEAT_CHECK(found != recordings_.end());
    for (const std::uint32_t* const bell : recording.doorbells()) doorbells_->remove(*bell);
    std::unique_ptr<Recording> removed = std::move(*found);
    recordings_.erase(found);
    return removed;
}

bool Engine::has_rung(const Recording& recording) {
    bool has_rung = false;
    for (const std::uint32_t* const bell : recording.doorbells()) has_rung |= doorbells_->has_rung(*bell);
    return has_rung;
}

void Engine::turn(std::span<pollfd> own, Clock::duration longest) {
    std::vector<pollfd> fds(own.begin(), own.end());
    std::vector<std::size_t> ends;  // of each recording's descriptors
    const auto now = Clock::now();
    Clock::time_point deadline = now + longest;
    // Who follows several traces prints up to the time that all of them have reached: they rest together.
    const bool is_quiet = std::ranges::all_of(recordings_, &Recording::is_quiet,
                                              [](const auto& each) -> const Recording& { return *each; });
    for (const auto& recording : recordings_) recording->rest(is_quiet);
    for (const auto& recording : recordings_) {
        const std::vector<pollfd> wanted = recording->wanted();
        fds.insert(fds.end(), wanted.begin(), wanted.end());
        ends.push_back(fds.size());
        deadline = std::min(deadline, recording->deadline());
    }
    doorbells_->wait(fds, std::max(deadline - now, Clock::duration::zero()));
    std::copy_n(fds.begin(), own.size(), own.begin());
    std::size_t begin = own.size();
    for (std::size_t i = 0; i < recordings_.size(); ++i) {
        const std::span<const pollfd> its = std::span(fds).subspan(begin, ends[i] - begin);
        recordings_[i]->turn(has_rung(*recordings_[i]), its);
        begin = ends[i];
    }
}

}  // namespace leat::host

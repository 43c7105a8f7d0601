// The verbs of the control protocol.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "sessiond/default_places.hpp"
#include "sessiond/request.hpp"
#include "sessiond/tracing.hpp"

namespace leat::sessiond {

class Commands {
  public:
    explicit Commands(Tracing& tracing) : tracing_(tracing) {}

    // Does what a request says; any JSON. Replies once: at once, or when what takes long is done; always in the
    // daemon's thread.
    void handle(const Client& client, const nlohmann::json& request, Reply reply);

    // Ends all sessions, stored; then calls `done`. From now on, requests are refused.
    void destroy_all(std::function<void()> done);

  private:
    using Answer = Result<nlohmann::json>;
    // One request and who asks.
    struct Call {
        const Client& client;
        Members& members;
        Reply reply;
    };
    // Nothing: it replies later.
    using Handler = std::optional<Answer> (Commands::*)(Call& call);
    static const std::map<std::string, Handler, std::less<>>& verbs();

    // The session that is meant; its name may be left out.
    Result<DaemonSession*> session_of(Call& call);
    // The channel that a rule belongs to.
    Result<session::Channel*> channel_of(DaemonSession& session, const std::optional<std::string>& name);
    // Has all programs do what the sessions now say; the answer gets the warnings.
    nlohmann::json changed(nlohmann::json answer);
    std::optional<Answer> create_session(Call& call, Definition definition, Place place);
    [[nodiscard]] Result<void> check_made(const DaemonSession& made, const std::string& trouble,
                                          const std::filesystem::path& directory) const;
    // Ends a session, stored; then replies with its counts.
    void finish(DaemonSession& session, Reply reply);
    void remove(const std::string& name, bool is_stored);
    void replay_sticky_values(const std::string& session);
    nlohmann::json shown_to(const Client& client, const DaemonSession& session);

    std::optional<Answer> version(Call& call);
    std::optional<Answer> create(Call& call);
    std::optional<Answer> set_session(Call& call);
    std::optional<Answer> destroy(Call& call);
    std::optional<Answer> start(Call& call);
    std::optional<Answer> stop(Call& call);
    std::optional<Answer> enable_channel(Call& call);
    std::optional<Answer> disable_channel(Call& call);
    std::optional<Answer> enable_event(Call& call);
    std::optional<Answer> disable_event(Call& call);
    std::optional<Answer> add_context(Call& call);
    std::optional<Answer> track(Call& call);
    std::optional<Answer> untrack(Call& call);
    template <class Change>
    std::optional<Answer> change_tracked(Call& call, Change change);
    std::optional<Answer> list(Call& call);
    std::optional<Answer> list_programs(Call& call);
    std::optional<Answer> status(Call& call);
    std::optional<Answer> save(Call& call);
    std::optional<Answer> load(Call& call);
    std::optional<Answer> rotate(Call& call);
    std::optional<Answer> clear(Call& call);
    std::optional<Answer> snapshot(Call& call);
    std::optional<Answer> regenerate(Call& call);
    std::optional<Answer> regenerate_metadata(const DaemonSession& session, Reply reply);
    std::optional<Answer> regenerate_statedump(DaemonSession& session, Reply reply);
    std::optional<Answer> not_built(Call& call);

    Tracing& tracing_;
    DefaultPlaces default_places_{};
    std::function<void()> when_ended_{};  // none: the daemon does not end
};

}  // namespace leat::sessiond

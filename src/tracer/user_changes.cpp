// setuid(), setgid() and their kind, interposed: contexts follow the ids of threads, and a process with another user
// moves to that user's application directory. Not in the archive: a static program has no functions of these names
// behind ours. The C library makes the change in all threads; what changes one thread alone (setfsuid(), bare system
// calls) does not move the process.
#include <errno.h>
#include <unistd.h>

#include "tracer/next_function.hpp"
#include "tracer/shared_thread.hpp"

namespace {

struct Users {
    Users() { (void)getresuid(&real, &effective, &saved); }
    bool operator!=(const Users& other) const {
        return real != other.real || effective != other.effective || saved != other.saved;
    }

    uid_t real = 0;
    uid_t effective = 0;
    uid_t saved = 0;
};

constinit leat::tracer::NextFunction next_setuid("setuid");
constinit leat::tracer::NextFunction next_seteuid("seteuid");
constinit leat::tracer::NextFunction next_setreuid("setreuid");
constinit leat::tracer::NextFunction next_setresuid("setresuid");
constinit leat::tracer::NextFunction next_setgid("setgid");
constinit leat::tracer::NextFunction next_setegid("setegid");
constinit leat::tracer::NextFunction next_setregid("setregid");
constinit leat::tracer::NextFunction next_setresgid("setresgid");

[[gnu::constructor]] void find_next() {
    leat::tracer::NextFunction* const all[] = {&next_setuid, &next_seteuid, &next_setreuid, &next_setresuid,
                                               &next_setgid, &next_setegid, &next_setregid, &next_setresgid};
    for (auto* const next : all) (void)next->find();
}

template <typename... Ids>
int change_ids(leat::tracer::NextFunction& function, Ids... ids) {
    using Change = int(Ids...);
    auto* const next = reinterpret_cast<Change*>(function.find());  // NOLINT(*-reinterpret-cast)
    if (next == nullptr) {
        errno = ENOSYS;
        return -1;
    }
    const Users before;
    const int result = next(ids...);
    if (result != 0) return result;
    leat_contexts_changed();
    if (Users() != before) leat_user_changed();
    return result;
}

}  // namespace

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): glibc calls them __uid and so on
extern "C" LEAT_EXPORT int setuid(uid_t uid) noexcept { return change_ids(next_setuid, uid); }
extern "C" LEAT_EXPORT int seteuid(uid_t uid) noexcept { return change_ids(next_seteuid, uid); }
extern "C" LEAT_EXPORT int setreuid(uid_t real, uid_t effective) noexcept {
    return change_ids(next_setreuid, real, effective);
}
extern "C" LEAT_EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved) noexcept {
    return change_ids(next_setresuid, real, effective, saved);
}
extern "C" LEAT_EXPORT int setgid(gid_t gid) noexcept { return change_ids(next_setgid, gid); }
extern "C" LEAT_EXPORT int setegid(gid_t gid) noexcept { return change_ids(next_setegid, gid); }
extern "C" LEAT_EXPORT int setregid(gid_t real, gid_t effective) noexcept {
    return change_ids(next_setregid, real, effective);
}
extern "C" LEAT_EXPORT int setresgid(gid_t real, gid_t effective, gid_t saved) noexcept {
    return change_ids(next_setresgid, real, effective, saved);
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

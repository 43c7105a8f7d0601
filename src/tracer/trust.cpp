#include "tracer/trust.hpp"

#include <unistd.h>

namespace leat::tracer {

bool is_trusted(uid_t uid) {
    if (uid == 0) return true;
    if (uid != geteuid()) return false;
    if (uid == getuid()) return true;
    uid_t real = 0;
    uid_t effective = 0;
    uid_t saved = 0;
    return getresuid(&real, &effective, &saved) == 0 && uid == saved;
}

bool is_effective_user_trusted() { return is_trusted(geteuid()); }

}  // namespace leat::tracer

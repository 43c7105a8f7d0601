// One-line sticky events for sticky.c.
#include <leat/event.hpp>

extern "C" void sticky_line(std::uint64_t key, const char* name) {
    LEAT_STICKY(key, "queue:line", LEAT_FIELD(id, key), LEAT_FIELD(secret, leat::hidden(name)), name);
}

extern "C" void forget_line(std::uint64_t key) { LEAT_FORGET(key, "queue:line"); }

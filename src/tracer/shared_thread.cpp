#include "tracer/shared_thread.hpp"

#include "tracer/control_memory.hpp"
#include "tracer/control_renewal.hpp"
#include "tracer/process_page.hpp"
#include "tracer/thread_state.hpp"

using leat::tracer::thread_state;

// The next event does not go straight, so it is seen that the thread is shared. Whose process it is must be known
// before a guest asks: it would take itself for that.
void leat_thread_share() {
    (void)leat::tracer::process_pid();
    ++thread_state.is_shared;
    leat::tracer::do_not_go_straight();
}

void leat_thread_unshare() { --thread_state.is_shared; }

void leat_contexts_changed() { leat::tracer::begin_new_generation(); }

void leat_user_changed() { leat::tracer::renew_for_user(); }

void leat_process_ends() { leat::tracer::mark_all_ended(); }

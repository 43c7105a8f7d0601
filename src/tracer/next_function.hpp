// The C library's functions behind those of the same name that libleat has. Shared libraries only.
#pragma once

#include <dlfcn.h>

namespace leat::tracer {

// Found when libleat is loaded, and not when it is called: dlsym() takes a lock that dlopen() has while the
// constructors of a library run, and one of these may wait for a thread that calls the function. It is
// constant-initialized, so it can be called before that, too; then it is looked up. Any thread; async-signal-safe once
// it is found.
class NextFunction {
  public:
    constexpr explicit NextFunction(const char* name) : name_(name) {}

    // Null: there is none.
    void* find() {
        void* found = __atomic_load_n(&found_, __ATOMIC_RELAXED);
        if (found != nullptr) return found;
        found = dlsym(RTLD_NEXT, name_);
        __atomic_store_n(&found_, found, __ATOMIC_RELAXED);  // threads that meet here find the same
        return found;
    }

  private:
    const char* name_;
    void* found_ = nullptr;
};

}  // namespace leat::tracer

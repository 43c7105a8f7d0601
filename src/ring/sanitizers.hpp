#pragma once

// Whether this file is compiled with a sanitizer: GCC says so by a macro, Clang by a feature.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LEAT_THREAD_SANITIZER 1
#endif
#if __has_feature(address_sanitizer)
#define LEAT_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define LEAT_THREAD_SANITIZER 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define LEAT_ADDRESS_SANITIZER 1
#endif

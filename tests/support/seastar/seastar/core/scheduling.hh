// As much of Seastar's scheduling groups as docs/seastar.md speaks of.
#pragma once
#include <string>

namespace seastar {

class scheduling_group;
namespace internal {
unsigned scheduling_group_index(scheduling_group group) noexcept;
}

class scheduling_group {
    unsigned _id;
    const char* _name;
    friend unsigned internal::scheduling_group_index(scheduling_group) noexcept;

  public:
    scheduling_group(unsigned id, const char* name) : _id(id), _name(name) {}
    [[nodiscard]] std::string name() const { return _name; }
};

inline unsigned internal::scheduling_group_index(scheduling_group group) noexcept { return group._id; }

}  // namespace seastar

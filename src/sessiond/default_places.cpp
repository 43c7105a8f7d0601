#include "sessiond/default_places.hpp"

#include <fmt/format.h>

#include <utility>

namespace leat::sessiond {

std::filesystem::path DefaultPlaces::next(const std::filesystem::path& home, const std::string& session,
                                          const std::string& date) {
    if (std::exchange(date_, date) != date) given_.clear();
    std::filesystem::path place = home / "leat-traces" / fmt::format("{}-{}", session, date);
    const unsigned count = ++given_[place];
    if (count > 1) place += fmt::format("-{}", count);
    return place;
}

}  // namespace leat::sessiond

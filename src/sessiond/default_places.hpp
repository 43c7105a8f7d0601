#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace leat::sessiond {

// Where the traces of sessions go whose users have chosen no place: HOME/leat-traces/NAME-DATE, and with "-2" and so on
// behind it if it was given out before in the same second. Whether anything is there, the session's thread looks: a
// user's file system may not answer.
class DefaultPlaces {
  public:
    // `date`: now, to the second.
    std::filesystem::path next(const std::filesystem::path& home, const std::string& session, const std::string& date);

  private:
    std::string date_{};
    std::map<std::filesystem::path, unsigned> given_{};  // then
};

}  // namespace leat::sessiond

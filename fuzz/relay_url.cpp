// A relay's URL as a user gives it to a viewer or a recorder. A URL that is accepted, written out and read again must
// be the same.
//
// Input: the text.
#include "net/relay_url.hpp"

#include <string>
#include <string_view>

#include "base/check.hpp"
#include "net/relay_address.hpp"

namespace leat::fuzz {
namespace {

void read_url(std::string_view text) {
    const auto url = net::parse_relay_url(text);
    if (!url) return;
    LEAT_CHECK(net::is_relay_url(text));
    LEAT_CHECK(!url->host.empty() && url->port != 0 && url->session.empty() == url->target_host.empty());
    const std::string written =
        url->names_session() ? url->url_of(url->target_host, url->session) : "net://" + url->address();
    const auto again = net::parse_relay_url(written);
    LEAT_CHECK(again && *again == *url);
}

void read_address(std::string_view text) {
    const auto address = net::parse_relay_address(text);
    if (!address) return;
    LEAT_CHECK(net::is_relay_address(text));
    LEAT_CHECK(!address->host.empty() && address->control_port != 0 && address->data_port != 0);
    const auto again = net::parse_relay_address(
        fmt::format("{}://{}:{}", address->takes_datagrams ? "net+udp" : "net", to_text(*address), address->data_port));
    LEAT_CHECK(again && *again == *address);
}

}  // namespace
}  // namespace leat::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);  // NOLINT(*-reinterpret-cast)
    leat::fuzz::read_url(text);
    leat::fuzz::read_address(text);
    return 0;
}

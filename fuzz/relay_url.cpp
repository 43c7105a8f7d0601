// A relay's URL as a user gives it to a viewer or a recorder. A URL that is accepted, written out and read again must
// be the same.
//
// Input: the text.
#include "net/relay_url.hpp"

#include <string>
#include <string_view>

#include "base/check.hpp"
#include "fuzz_input.hpp"
#include "net/relay_address.hpp"

namespace leat::fuzz::relay_url {
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

LEAT_FUZZ_TARGET(relay_url) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);  // NOLINT(*-reinterpret-cast)
    read_url(text);
    read_address(text);
    return 0;
}

}  // namespace leat::fuzz::relay_url

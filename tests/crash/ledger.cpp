#include "crash/ledger.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace leat::torture {

Result<Ledger> Ledger::create(std::uint32_t incarnations) {
    Ledger ledger;
    ledger.fd_ = UniqueFd(::memfd_create("leat-torture-ledger", 0));  // inherited by the writers: no MFD_CLOEXEC
    const std::size_t size = incarnations * sizeof(Incarnation);
    if (!ledger.fd_.is_open() || ::ftruncate(ledger.fd(), static_cast<off_t>(size)) != 0)
        return io_error("cannot create the ledger");
    ledger.memory_ = LEAT_TRY(Mapping::of_file(ledger.fd(), size, true));
    return ledger;
}

Result<Ledger> Ledger::inherit(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) return io_error("no ledger");
    Ledger ledger;
    ledger.memory_ = LEAT_TRY(Mapping::of_file(fd, static_cast<std::size_t>(status.st_size), true));
    return ledger;
}

}  // namespace leat::torture

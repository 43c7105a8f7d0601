// Capture, for C++17: see <leat/capture.h>, which says what each of these does.
//
//     leat::capture::options options;
//     options.directory = "/var/tmp/io-trace";
//     options.duration_ns = 5'000'000'000;
//     options.max_size = 50 << 20;
//     std::string error;
//     leat::capture capture = leat::capture::start(options, error);
//     if (!capture) std::cerr << error << '\n';
//
//     while (is_running) {
//         ...
//         if (capture && !capture.write()) capture = {};
//     }
#ifndef LEAT_CAPTURE_HPP
#define LEAT_CAPTURE_HPP

#include <leat/capture.h>

#include <memory>
#include <string>

namespace leat {

// Owns a capture, or none. Moves; its end stops and writes what is left.
class capture {
  public:
    struct options : leat_capture_options {
        options() : leat_capture_options(LEAT_CAPTURE_OPTIONS) {}
    };
    using buffer = leat_capture_buffer;
    using result = leat_capture_result;

    capture() = default;

    // None, if it cannot be started: `error` says why.
    [[nodiscard]] static capture start(const options& options, std::string& error) {
        char text[LEAT_CAPTURE_ERROR_SIZE] = "";
        capture started(leat_capture_start(&options, text));
        error = text;
        return started;
    }

    [[nodiscard]] explicit operator bool() const { return capture_ != nullptr; }

    // The others are for who has one.
    int poll(buffer* buffers, int count) { return leat_capture_poll(capture_.get(), buffers, count); }
    void written(const buffer& written, ssize_t size) { leat_capture_written(capture_.get(), &written, size); }
    // False: it is over.
    bool write() { return leat_capture_write(capture_.get()) != 0; }
    // How many writes are under way; -1: it is over.
    int submit() { return leat_capture_submit(capture_.get()); }
    void stop() { leat_capture_stop(capture_.get()); }
    [[nodiscard]] result get_result() const {
        result found;
        leat_capture_get_result(capture_.get(), &found);
        return found;
    }

  private:
    struct free {
        void operator()(leat_capture* capture) const { leat_capture_free(capture); }
    };
    explicit capture(leat_capture* started) : capture_(started) {}

    std::unique_ptr<leat_capture, free> capture_;
};

}  // namespace leat

#endif
